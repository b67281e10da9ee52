// Command prose checks the English of comments, messages and documents, and the length of lines.
//
//	go run ./test/prose              fail if a folder has more findings of a rule than baseline.tsv allows
//	go run ./test/prose -list RULE   print every finding of a rule; "all" for all rules
//	go run ./test/prose -lower       write the present counts into baseline.tsv where they are lower
//
// It reads Go files and Markdown documents. Exempt by design are generated files, testdata, and in
// documents code blocks, tables and headings. The length of a line with a struct tag or with a part of
// a raw string of several lines, such as a shell script, is not limited, because neither can be broken.
// Strings with carriage returns are data of a protocol, and no sentences. Assembly (*.s), shell scripts and
// configuration files have no sentences to check and the line length of their own tools.
// The check also prints the mean number of words a sentence of docs has; it should be below 18.
//
// The rules are those of CONTRIBUTING.md, "Prose". They are regular expressions over sentences,
// so they are a guide and not a grammar. baseline.tsv only ever falls: the aim is an empty file.
package main
