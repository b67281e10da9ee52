// Command prose checks the English of comments, messages and documents, and the length of lines.
//
//	go run ./test/prose              fail if a folder has more findings of a rule than baseline.tsv allows
//	go run ./test/prose -list RULE   print every finding of a rule; "all" for all rules
//	go run ./test/prose -lower       write the present counts into baseline.tsv where they are lower
//
// The rules are those of CONTRIBUTING.md, "Prose". They are regular expressions over sentences,
// so they are a guide and not a grammar. baseline.tsv only ever falls: the aim is an empty file.
package main
