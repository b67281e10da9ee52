// Package clock is the clock by which the program ages what it knows: generations, limits,
// accounts. It is the machine's clock. In a program built with the tag simclock it can be
// moved, so that tests can let days pass for a program that they see from outside; no
// release is built with it. Deadlines of connections, pauses between tries, and whatever is
// compared with clients' clocks use package time.
package clock
