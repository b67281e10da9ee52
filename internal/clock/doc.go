// Package clock is the clock by which the program ages what it knows: generations,
// limits, accounts. It is the machine's. In a program that was built with the tag
// simclock it can be moved, so that tests can let days pass for a program that they
// see from outside; no release is built with it. Deadlines of connections, pauses
// between two tries, and what is compared with the clocks of clients, go by package
// time.
package clock
