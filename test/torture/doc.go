// Package torture does to one node what bad machines do: it kills the process at random
// moments, starts it with too few descriptors, and damages every kind of file, while
// clients use all its doors. It also puts the node on a disk that fails, and whose power is
// cut: then what was not synced is lost or torn; and it moves its clock. It compares what the node says with a plain
// map of what it has acknowledged. "make torture" runs each part for two minutes, or as long
// as TORTURE says. It has no code of its own.
package torture
