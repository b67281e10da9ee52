// Package clock is the clock by which the program ages its data: generations, limits and accounts.
// It is the machine's clock. A program built with the tag simclock can move it, so that tests can
// let days pass for a program that they observe from outside; no release is built with the tag.
// Connection deadlines, pauses between retries and comparisons with clients' clocks use package
// time.
package clock
