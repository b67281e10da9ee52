package rspamd

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bulkhead-mail/bulkhead"
)

// Limits of a model, and of what of a text is looked at.
const (
	maxModels    = 64      // languages
	maxModel     = 1 << 20 // bytes of one
	modelWords   = 80      // words that are looked at
	fewestWords  = 10      // words, and links, of texts that are looked at
	modelLetters = 1 << 20 // what a letter in a trigram is below
)

// trigrams is rspamd's model of languages: how frequent three letters are in each.
type trigrams struct {
	langs   []modelled
	of      map[uint64]uint32 // by letters and script: six bits for how many weights there are, and where they begin
	weights []weight
}

// A modelled is a language of the model.
type modelled struct {
	index int     // in languages, -1 for one that has no stemmer here
	bonus float64 // what rspamd likes it better than others, if there is not much between them
}

// A weight is how much a trigram speaks for a language.
type weight struct {
	lang  uint8
	share float32
}

// trigram returns the key of three letters in a script.
func trigram(in script, a, b, c rune) uint64 {
	return ((uint64(in)*modelLetters+uint64(a))*modelLetters+uint64(b))*modelLetters + uint64(c)
}

// ReadModel reads the files by which rspamd distinguishes languages where stop words do not
// suffice: the files in its folder of languages whose names end in ".json". The Hasher must not
// be in use yet. Errors other than read errors wrap bulkhead.ErrMalformed.
//
// Source: docs/specs/rspamd-fuzzy.md#language.
func (h *Hasher) ReadModel(folder fs.FS) error {
	names, err := fs.Glob(folder, "*.json")
	if err != nil {
		return err
	}
	if len(names) > maxModels {
		return fmt.Errorf("rspamd: %w: more than %d models of languages", bulkhead.ErrMalformed, maxModels)
	}
	shares := make(map[uint64][]weight)
	var model trigrams
	for _, name := range names {
		if err := model.read(folder, name, shares); err != nil {
			return err
		}
	}
	model.of = make(map[uint64]uint32, len(shares))
	for key, all := range shares {
		const few = 3 // languages for which a trigram speaks clearly
		least, factor := float32(0), float32(4)
		if len(all) > few {
			for _, w := range all {
				least += w.share / float32(len(all))
			}
			factor = 1
		}
		begin := len(model.weights)
		for _, w := range all {
			if w.share >= least {
				model.weights = append(model.weights, weight{w.lang, w.share * factor})
			}
		}
		model.of[key] = uint32(begin<<6 + len(model.weights) - begin)
	}
	if len(model.langs) > 0 {
		h.model = &model
	}
	return nil
}

// read adds the model of one language.
func (t *trigrams) read(folder fs.FS, name string, shares map[uint64][]weight) error {
	file, err := folder.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxModel+1))
	if err != nil {
		return err
	}
	var parsed struct {
		Freq map[string]uint32
		Type string
	}
	if err := json.Unmarshal(text, &parsed); err != nil || len(text) > maxModel {
		return fmt.Errorf("rspamd: %w: %s is no model of a language: %v", bulkhead.ErrMalformed, name, err)
	}
	in := slices.Index([]string{"latin", "cyrillic", "arab", "devanagari"}, parsed.Type)
	if in < 0 {
		return nil // what rspamd does not read
	}
	frequent, total := make(map[uint64]float64, len(parsed.Freq)), 0.0
	latin, all := 0, 0
	for pass := range 2 {
		for letters, times := range parsed.Freq {
			if utf8.RuneCountInString(letters) != 3 {
				continue
			}
			r := []rune(strings.ToLower(letters))
			isLatin := !strings.ContainsFunc(letters, func(r rune) bool {
				return r >= utf8.RuneSelf || r != ' ' &&
					!isAlnum(byte(r))
			})
			if pass == 0 {
				if all++; isLatin {
					latin++
				}
			} else if len(r) == 3 && slices.Max(r) < modelLetters && (!isLatin || latin >= all/3) {
				frequent[trigram(script(in), r[0], r[1], r[2])] += float64(times)
				total += float64(times)
			}
		}
	}
	code := strings.TrimSuffix(path.Base(name), ".json")
	m := modelled{index: slices.IndexFunc(languages[:], func(l language) bool { return l.name == code && l.stem != nil })}
	switch code {
	case "en":
		m.bonus = 19.2
	case "fr", "it", "de", "es", "nl", "pt", "ru", "pl", "tk", "th", "ar":
		m.bonus = 0.8
	}
	for key, times := range frequent {
		shares[key] = append(shares[key], weight{uint8(len(t.langs)), float32(times / total)})
	}
	t.langs = append(t.langs, m)
	return nil
}

// language returns the index in languages of the language of a text in the given script, or -1
// for a language that has no stemmer here. It looks at a sample of the words at regular
// distances; rspamd draws its sample at random.
func (t *trigrams) language(v *vocabulary, in script) int {
	if v.len() == 0 {
		return inEnglish
	}
	var likely [maxModels]float64
	t.count(&likely, v.words[v.ids[0]], in)
	step, remainder := 1, 0
	if n := v.len(); n > modelWords {
		step, remainder = n/modelWords, n%modelWords
	}
	for at := step + remainder; at < v.len(); at += step { // as it draws none of those before
		for _, id := range v.ids[at:min(at+step, v.len())] {
			if t.count(&likely, v.words[id], in) {
				break
			}
		}
	}
	const unlikely, behind, close = -8, 1, 0.25
	most := math.Inf(-1)
	for i := range t.langs {
		likely[i] = math.Log2(likely[i])
		most = max(most, likely[i])
	}
	if most < unlikely {
		return inEnglish
	}
	mean, spread, n := 0.0, 0.0, 0.0
	for i := range t.langs {
		if likely[i] < unlikely || most-likely[i] > behind {
			likely[i] = math.Inf(-1)
			continue
		}
		mean += likely[i]
		n++
	}
	mean /= n
	for i := range t.langs {
		if !math.IsInf(likely[i], 0) {
			spread += math.Abs(likely[i]-mean) / n
		}
	}
	if spread/math.Abs(mean) >= close {
		spread = 0 // there is much between them
	}
	best := 0
	for i := range t.langs {
		if likely[i] += spread * t.langs[i].bonus; likely[i] > likely[best] {
			best = i
		}
	}
	return t.langs[best].index
}

// count adds what the letters of a word say, and reports whether it is one that rspamd looks at.
func (t *trigrams) count(likely *[maxModels]float64, word string, in script) bool {
	const most = 64 // letters
	var room [most]rune
	letters := room[:0]
	for _, r := range word {
		if len(letters) == most {
			break
		}
		letters = append(letters, r)
	}
	n := len(letters)
	if n < 2 || !unicode.IsLetter(letters[0]) || !unicode.IsLetter(letters[n-1]) {
		return false
	}
	if n < 3 {
		return true
	}
	t.add(likely, trigram(in, ' ', letters[0], letters[1]))
	for i := 1; i < n-2; i++ {
		t.add(likely, trigram(in, letters[i], letters[i+1], letters[i+2]))
	}
	t.add(likely, trigram(in, letters[n-2], letters[n-1], ' '))
	return true
}

func (t *trigrams) add(likely *[maxModels]float64, key uint64) {
	of := t.of[key]
	begin := of >> 6
	for _, w := range t.weights[begin : begin+of&(1<<6-1)] {
		likely[w.lang] += float64(w.share)
	}
}
