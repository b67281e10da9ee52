package dcc

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// fuz2Words are common words, enough for the vectors; no table of DCC's.
const fuz2Words = `
account accounts after any area and bank before body bold can check click customer day days dear dog each error every
find first for fox from full goes good great have help here http html into jumps kind lazy letter line list
long look mail march member message month more near not now old one only order other our out over page
pages part parts people place please quick read ready regards report right river same see side sign simple
site small some special statement story support table team text than that the then there thirty this thousand
time today under use visit was water way well were when where white wish with within words world year
shop example enough kind story yes you your younger different
`

func fuz2Table(t testing.TB) *Words {
	t.Helper()
	w, err := ReadWords(strings.NewReader("# common words\n[english]\n" + strings.Join(strings.Fields(fuz2Words), "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFuz2Vectors(t *testing.T) {
	data, err := os.ReadFile(sharedtest.Vector(t, "dcc", "checksums.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(line, "\t"); len(f) == 10 {
			want[f[0]] = f[8]
		}
	}
	words := fuz2Table(t)
	for _, v := range vectors(t) {
		got := "-"
		for _, s := range mailtest.Must(Sums(t.Context(), v.message, Options{Words: words})) {
			if s.Type == TypeFuz2 {
				got = hex.EncodeToString(s.Sum[:])
			}
		}
		if got != want[v.name] {
			t.Errorf("%s: Fuz2 = %s, want %s", v.name, got, want[v.name])
		}
	}
}
