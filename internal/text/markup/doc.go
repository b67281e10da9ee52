// Package markup cuts HTML that lies in memory into tokens.
//
// It finds the same tokens as the tokenizer of golang.org/x/net/html, which reads a stream
// byte by byte and allocates memory for each tag and attribute, and so took most of the time
// spent on a page. The tests compare the two.
package markup
