// Package learned counts the words and the style of mail, for package learn to judge by. It has a row
// of generations, each with an array of its own. In it, a token has a count of reported messages, of
// reports that were taken back, and of delivered messages.
//
// A message counts once as delivered and once as reported, whatever the number of its copies and
// voters. So the text of a message has a token, too, with the same counts.
//
// The writer of the engine decides on changes ([Book.Begin] and what follows it), makes them durable,
// and applies them ([Book.Apply]). Replay applies the same changes: they depend on no state. Look-ups
// take no lock.
package learned
