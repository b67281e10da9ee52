// Package markup cuts HTML that lies in memory into tokens.
//
// It finds the same tokens as the tokenizer of golang.org/x/net/html, which reads from
// a stream, byte by byte, and allocates memory for each tag and each of its attributes. Most
// of what was spent on a page was spent there. The tests hold one to the other.
package markup
