"""The kubelet: what becomes of a pod, as the recordings tell it."""
