package real

import (
	"embed"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// texts are the word lists and grammars, written for this package.
//
//go:embed texts/*.txt
var texts embed.FS

// A grammar has lists of lines by name. A line may refer to a list in braces.
type grammar map[string][]string

var (
	names     = readGrammar("names")
	languages = []grammar{readGrammar("en"), readGrammar("de"), readGrammar("fr")}
)

// readGrammar reads an embedded file of sections "[name]" with a line for each alternative.
func readGrammar(file string) grammar {
	text, err := texts.ReadFile("texts/" + file + ".txt")
	if err != nil {
		panic(err) // the files are part of the program
	}
	g, section := grammar{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "["); ok && strings.HasSuffix(name, "]") && !strings.Contains(name, "{") &&
			strings.ToLower(name) == name && !strings.Contains(name, " ") {
			section = strings.TrimSuffix(name, "]")
		} else if line != "" {
			g[section] = append(g[section], line)
		}
	}
	return g
}

var reference = regexp.MustCompile(`\{[a-z_.]+\}`)

// line returns a random line of a section with all references replaced: by values, by lines of
// other sections, or by random names, numbers, sums, codes and days.
func (g grammar) line(r *rand.Rand, section string, values map[string]string) string {
	return g.fill(r, pick(r, g[section]), values)
}

func (g grammar) fill(r *rand.Rand, text string, values map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		name := ref[1 : len(ref)-1]
		if v, ok := values[name]; ok {
			return v
		}
		switch name {
		case "name":
			return pick(r, names["name"])
		case "num":
			return fmt.Sprint(2 + r.IntN(90))
		case "amount":
			return fmt.Sprintf("%d.%02d EUR", 1+r.IntN(400), r.IntN(100))
		case "code":
			return fmt.Sprintf("%s-%04d", strings.ToUpper(coin(r, 1)), r.IntN(10_000))
		case "day":
			return fmt.Sprintf("%d.%d.", 1+r.IntN(28), 1+r.IntN(12))
		case "brand":
			return title(coin(r, 2))
		case "site":
			return coin(r, 3) + ".org"
		case "to":
			return coin(r, 2)
		}
		if len(g[name]) == 0 {
			return ref
		}
		return g.line(r, name, values)
	})
}

// sentences returns n lines of a section, none again before all were used, in paragraphs of up to
// three.
func (g grammar) sentences(r *rand.Rand, section string, n int, values map[string]string) string {
	var b strings.Builder
	order := r.Perm(len(g[section]))
	for i := range n {
		if i > 0 {
			b.WriteString(map[bool]string{true: "\n\n", false: " "}[i%3 == 0])
		}
		s := g.fill(r, g[section][order[i%len(order)]], values)
		b.WriteString(strings.ToUpper(s[:1]) + s[1:])
	}
	return b.String()
}

// all returns the lines of a section, each filled, as paragraphs of two.
func (g grammar) all(r *rand.Rand, section string, values map[string]string) string {
	var b strings.Builder
	for i, line := range g[section] {
		if i > 0 {
			b.WriteString(map[bool]string{true: "\n\n", false: " "}[i%2 == 0])
		}
		b.WriteString(g.fill(r, line, values))
	}
	return b.String()
}

// coin returns a word of n or n+1 syllables that no dictionary has.
func coin(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n + r.IntN(2) {
		b.WriteString(pick(r, names["syllable"]))
	}
	return b.String()
}

// domainName returns a registrable domain of two coined words. Own names have the top-level
// domains of established organisations, others cheap ones.
func domainName(r *rand.Rand, own bool) string {
	tld := "tld.cheap"
	if own {
		tld = "tld.own"
	}
	return fmt.Sprintf("%s-%s%d.%s", coin(r, 2), coin(r, 2), r.IntN(100), pick(r, names[tld]))
}

// person returns a full name.
func person(r *rand.Rand) string { return pick(r, names["name"]) + " " + pick(r, names["family"]) }

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

// chance reports true with probability p.
func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// between returns a number that is uniform in [low, high).
func between(r *rand.Rand, low, high float64) float64 { return low + (high-low)*r.Float64() }

// spread returns a number in [low, high) whose logarithm is uniform.
func spread(r *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, r.Float64())
}

// weighted returns an index of shares with a probability in proportion to its share.
func weighted(r *rand.Rand, shares []float64) int {
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	x := r.Float64() * sum
	for i, s := range shares {
		if x -= s; x < 0 {
			return i
		}
	}
	return len(shares) - 1
}

// shares draws n positive shares, uneven in the way of a Dirichlet distribution.
func shares(r *rand.Rand, n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = r.ExpFloat64() + 0.1
	}
	return all
}

// later returns an exponential duration with a mean.
func later(r *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(r.ExpFloat64() * float64(mean))
}
