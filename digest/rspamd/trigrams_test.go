package rspamd

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// modelOf returns a model of a language by some of its sentences.
func modelOf(kind, text string) *fstest.MapFile {
	freq := make(map[string]int)
	for word := range strings.FieldsSeq(text) {
		r := []rune(" " + word + " ")
		for i := range len(r) - 2 {
			freq[string(r[i:i+3])] += 1000
		}
		freq[string(r[1:2])] = 7 // what is no trigram
	}
	return &fstest.MapFile{Data: mailtest.Must(json.Marshal(map[string]any{"freq": freq, "type": kind,
		"n_words": []int{1, 1, 1}}))}
}

func TestModel(t *testing.T) {
	const english = "quick brown foxes jump over lazy dogs while seven boxing wizards climb high towers"
	const danish = "rødgrød kvæg høje bjerge skønne åer blå øjne fløde kærlighed søvnløse nætter ængstelig"
	const polish = "źdźbło chrząszcz brzęczy trzcinie szczebrzeszyn łódka gżegżółka piękny świat ćma"
	const russian = "съешь ещё этих мягких французских булок выпей чаю широкая электрификация южных губерний"
	const bulgarian = "жълтата дюля беше щастлива че пухът който цъфна замръзна като гьон"
	h := NewHasher("", "", MumHash)
	if err := h.ReadStopWords(strings.NewReader(`{"en": ["nevermore"], "da": ["aldrig"]}`)); err != nil {
		t.Fatal(err)
	}
	folder := fstest.MapFS{
		"en.json": modelOf("latin", english), "da.json": modelOf("latin", danish),
		"pl.json": modelOf("latin", polish), "ru.json": modelOf("cyrillic", russian),
		"bg.json": modelOf("cyrillic", bulgarian),
		"xx.json": modelOf("elvish", english), "stop_words": {Data: []byte("{}")},
	}
	languageOf := func(text string) string {
		var list wordList
		for word := range strings.FieldsSeq(text) {
			list.add(word)
		}
		var v vocabulary
		v.take(&list, h.stems.seed)
		if i := h.language([]byte(text), &v, list.len()); i >= 0 {
			return languages[i].name
		}
		return ""
	}
	if got := languageOf(danish); got != "en" {
		t.Errorf("without a model Danish is in %q", got)
	}
	if err := h.ReadModel(folder); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		english: "en", danish: "da", polish: "", russian: "ru", bulgarian: "", strings.Repeat(danish+" ", 50): "da",
		danish[:60]:            "en", // too few words
		"1 2 3 4 5 6 7 8 9 10": "en", "xq xq xq xq xq xq xq xq xq xq": "en", "й 1 2 3 4 5 6 7 8 9": "en",
		english + " " + danish: "en", // English is preferred where there is not much between them
		"w " + strings.Repeat("ы ", 300) + strings.Repeat(english+" ", 20): "en",
	} {
		if got := languageOf(text); got != want {
			t.Errorf("%.60q is in %q, want %q", text, got, want)
		}
	}
	for _, bad := range []fs.FS{
		fstest.MapFS{"en.json": {Data: []byte("{")}}, fstest.MapFS{"en.json": {Data: []byte(`{"freq": [1]}`)}},
		fstest.MapFS{"en.json": {Data: make([]byte, maxModel+1)}},
	} {
		if err := h.ReadModel(bad); !errors.Is(err, bulkhead.ErrMalformed) {
			t.Errorf("a bad model: %v", err)
		}
	}
	many := fstest.MapFS{}
	for i := range maxModels + 1 {
		many[string(rune('a'+i%26))+string(rune('a'+i/26))+".json"] = modelOf("latin", english)
	}
	if err := h.ReadModel(many); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Errorf("too many models: %v", err)
	}
	if h.model == nil {
		t.Error("bad models took the place of the good one")
	}
}

// TestEmptyStem: a word of which nothing is left stays, and so do numbers.
func TestEmptyStem(t *testing.T) {
	h := NewHasher("", "", MumHash)
	if err := h.ReadStopWords(strings.NewReader(`{"en": ["nevermore"], "tr": ["ve"], "fi": ["ja"]}`)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"ve ve ve ve ister leri": "leri", "ja ja ja ja talossa 1000": "1000"} {
		var space workspace
		s := strippedTexts.Get().(*stripped)
		s.strip([]byte(text), false)
		v, ok := space.stemmedWords(s, 0, 100, h, nil)
		if got := v.strings(); !ok || got[len(got)-1] != want {
			t.Errorf("%q is %q, want %q at the end", text, got, want)
		}
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte(`{"freq":{"abc":5,"bcd":7,"é":2},"type":"latin"}`), "abcd abc bcd abcd abc bcd abcd abc bcd abcd")
	f.Add([]byte(`{"freq":{"съе":4294967295," въ":1},"type":"cyrillic"}`),
		"съешь ещё этих мягких французских булок да выпей ещё чаю")
	f.Fuzz(func(t *testing.T, model []byte, text string) {
		h := NewHasher("", "", MumHash)
		if err := h.ReadModel(fstest.MapFS{"en.json": {Data: model}, "xx.json": {Data: model}}); err != nil &&
			h.model != nil {
			t.Fatalf("%v, and yet a model", err)
		}
		var list wordList
		for word := range strings.FieldsSeq(text) {
			list.add(word)
		}
		var v vocabulary
		v.take(&list, h.stems.seed)
		if i := h.language([]byte(text), &v, list.len()); i >= 0 && languages[i].stem == nil {
			t.Fatalf("language %d of %q has no stemmer", i, text)
		}
	})
}
