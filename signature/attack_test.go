package signature

import (
	"math/rand/v2"
	"strings"
)

// An attacker changes texts to escape from near signatures.
type attacker struct {
	r          *rand.Rand
	dictionary []string
}

func (a *attacker) word() string { return a.dictionary[a.r.IntN(len(a.dictionary))] }

// attacks are those that Yan and Cho name, each at several intensities, with
// the least share of spam that must still be found.
var attacks = []struct {
	name        string
	change      func(a *attacker, text string, p float64) string
	intensities []float64
	floor       []float64
}{
	{"random words added at the end", (*attacker).addEnd, []float64{0.1, 0.25, 0.5, 1}, []float64{0.97, 0.95, 0.75, 0.2}},
	{"random words added throughout", (*attacker).addThroughout, []float64{0.05, 0.1, 0.2}, []float64{0.97, 0.85, 0.35}},
	{"words substituted by random ones", (*attacker).substitute, []float64{0.02, 0.05, 0.1, 0.2},
		[]float64{0.97, 0.95, 0.7, 0.15}},
	{"letters substituted by look-alikes", (*attacker).disguise, []float64{0.05, 0.1, 0.2, 0.4},
		[]float64{0.97, 0.97, 0.95, 0.88}},
	{"words spelt with separators", (*attacker).spell, []float64{0.05, 0.2, 0.4}, []float64{0.97, 0.95, 0.8}},
}

func (a *attacker) addEnd(text string, p float64) string {
	var b strings.Builder
	b.WriteString(text + "\n\n")
	for range int(p * float64(len(strings.Fields(text)))) {
		b.WriteString(a.word() + " ")
	}
	return b.String()
}

// eachWord rewrites every word and keeps the lines.
func eachWord(text string, change func(string) string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		words := strings.Fields(line)
		for j, w := range words {
			words[j] = change(w)
		}
		lines[i] = strings.Join(words, " ")
	}
	return strings.Join(lines, "\n")
}

func (a *attacker) addThroughout(text string, p float64) string {
	return eachWord(text, func(w string) string {
		if a.r.Float64() < p {
			return w + " " + a.word()
		}
		return w
	})
}

func (a *attacker) substitute(text string, p float64) string {
	return eachWord(text, func(w string) string {
		if a.r.Float64() < p {
			return a.word()
		}
		return w
	})
}

func (a *attacker) spell(text string, p float64) string {
	return eachWord(text, func(w string) string {
		if len(w) > 3 && a.r.Float64() < p {
			return strings.Join(strings.Split(w, ""), []string{".", "-", "_", "*", " "}[a.r.IntN(5)])
		}
		return w
	})
}

// lookAlikes lists, for each letter, runes that resemble it.
var lookAlikes = map[rune][]rune{
	'a': []rune("@4аàɑ"), 'b': []rune("8вβ"), 'c': []rune("сϲç"), 'd': []rune("ԁď"), 'e': []rune("3еéε"),
	'f': []rune("ƒ"), 'g': []rune("9ɡğ"),
	'h': []rune("һн"), 'i': []rune("1!|іíl"), 'j': []rune("ј"), 'k': []rune("кκ"), 'l': []rune("1|Iӏ"),
	'm': []rune("мⅿ"), 'n': []rune("ñηո"),
	'o': []rune("0оοö"), 'p': []rune("рρ"), 'q': []rune("ԛ"), 'r': []rune("ŕ"), 's': []rune("5$ѕş"),
	't': []rune("7тţ"), 'u': []rune("υüù"),
	'v': []rune("νѵ"), 'w': []rune("ԝω"), 'x': []rune("хχ"), 'y': []rune("уýγ"), 'z': []rune("2ζ"),
}

func (a *attacker) disguise(text string, p float64) string {
	return strings.Map(func(r rune) rune {
		lower := r
		if 'A' <= r && r <= 'Z' {
			lower += 'a' - 'A'
		}
		if like := lookAlikes[lower]; like != nil && a.r.Float64() < p {
			return like[a.r.IntN(len(like))]
		}
		return r
	}, text)
}
