package main

import (
	"regexp"
	"strings"
)

// maxLine is the largest number of characters in a line of code or prose.
const maxLine = 120

// maxWords is the largest number of words in a sentence of a document.
const maxWords = 25

// A rule finds one habit that the project's prose avoids.
type rule struct {
	name    string
	pattern *regexp.Regexp
}

// sentenceRules are applied to each sentence of comments, messages and documents.
var sentenceRules = []rule{
	// "Who joins is counted" has a clause as its subject; questions are none.
	{"clause-subject", regexp.MustCompile(`^(Who|Whose|Whom|Whoever|Whatever|What) [a-z][^?]*$`)},
	{"that-of", regexp.MustCompile(`(?i)\b(that|those) of (the|a|an|its|their|which|whom|whose|one|other|each|all)\b`)},
	{"says-whether", regexp.MustCompile(`(?i)\bsays? whether\b`)},
	{"tell", regexp.MustCompile(`(?i)\b(tell|tells|told|telling)\b`)},
	{"nobody", regexp.MustCompile(`(?i)\b(nobody|somebody|anybody)\b`)},
	{"so-many", regexp.MustCompile(`(?i)\bso many\b`)},
	{"trailing-too", regexp.MustCompile(`, too$`)},
	{"trailing-meanwhile", regexp.MustCompile(`(?i)\bmeanwhile$`)},
}

// vagueNames are words that name nothing: not to be used for variables, fields and functions.
var vagueNames = map[string]bool{
	"told": true, "said": true, "heard": true, "looked": true, "some": true, "ofSome": true, "more": true, "moreN": true,
	"off": true,
}

// sentenceEnd splits running text: a full stop, question mark, exclamation mark or colon before a blank.
var sentenceEnd = regexp.MustCompile(`[.?!:;]["')\]]*\s+`)

// sentences divides text into sentences without their final mark. Question marks stay, because
// a question may begin with "who".
func sentences(text string) []string {
	text = strings.Join(strings.Fields(text), " ")
	var all []string
	for text != "" {
		end := len(text)
		next := end
		if at := sentenceEnd.FindStringIndex(text); at != nil {
			end, next = at[0], at[1]
			if text[end] == '?' {
				end++
			}
		}
		if s := strings.TrimRight(text[:end], ".!:;"); s != "" {
			all = append(all, s)
		}
		text = text[next:]
	}
	return all
}

// broken returns the names of the rules that a sentence breaks.
func broken(sentence string) (names []string) {
	for _, r := range sentenceRules {
		if r.pattern.MatchString(sentence) {
			names = append(names, r.name)
		}
	}
	return names
}
