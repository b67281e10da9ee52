// Package torture subjects one node to the faults of bad machines, while clients use all its doors.
// It kills the process at random moments and at rare and short ones, starts it with too few
// descriptors and too little memory, and damages every kind of file. It puts the node on a disk
// that fails and loses power, so that unsynced data is lost or torn, and moves its clock. It
// compares the node's answers with a plain map of the acknowledged reports. "make torture" runs
// each part for two minutes, or as long as TORTURE says, and keeps doors crowded with 600 silent or
// slow clients, or as many as CROWD says, while it measures the waiting times of others. It has no
// code of its own.
package torture
