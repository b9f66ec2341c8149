"""Programs inside a node: the MRC end host and the leaf's SprayCheck counter process."""
