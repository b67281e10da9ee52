// Package torture does to one node what bad machines do, while clients use all its doors:
// it kills the process at random moments and at those that are rare and short, starts it with too
// few descriptors and too little memory, damages every kind of file, puts it on a disk that fails
// and whose power is cut, so that what was not synced is lost or torn, and moves its clock. It
// compares what the node says with a plain map of what it has acknowledged. "make torture" runs
// each part for two minutes, or as long as TORTURE says, and keeps doors crowded with 600 silent or
// slow clients, or as many as CROWD says, beside which it measures how long others wait. It has no
// code of its own.
package torture
