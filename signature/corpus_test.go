package signature

import (
	"cmp"
	"encoding/csv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// A corpusMail is what the measurements need to know of one message.
type corpusMail struct {
	name    string // set and file
	set     string
	spam    bool
	cluster int // of near-duplicates by the corpus's own measure; 0 for none
	exact   []byte
	bands   [][nearSum]byte
	words   *wordList // that the bands are made of
	quoted  bool      // the bands are those of quoted text
	visible []byte    // text from which bands were made
	to      []string
}

// loadCorpus reads the corpus: two sets by default, all five when BULKHEAD_FULL
// is 1.
func loadCorpus(t *testing.T) []corpusMail {
	t.Helper()
	if testing.Short() {
		t.Skip("reads thousands of messages")
	}
	sets := []string{"spamassassin-2002", "phishing-2004-2005"}
	if os.Getenv("BULKHEAD_FULL") == "1" {
		sets = append(sets, "csdmc-2009-2010", "phishing-pot-2023-2024", "lists-2019-2020")
	}
	key := newNearKey([16]byte{7})
	var mails []corpusMail
	damaged, none := 0, 0
	for _, set := range sets {
		dir := sharedtest.Unpack(t, set)
		clusters := make(map[string]int)
		for _, row := range readTable(t, filepath.Join(dir, "clusters.tsv")) {
			clusters[row[0]], _ = strconv.Atoi(row[1])
		}
		for _, row := range readTable(t, filepath.Join(dir, "index.tsv")) {
			raw, err := os.ReadFile(filepath.Join(dir, row[0]))
			if err != nil {
				t.Fatal(err)
			}
			m, err := mail.Read(t.Context(), raw)
			if err != nil {
				t.Fatalf("%s/%s: %v", set, row[0], err)
			}
			if m.Damage != nil {
				damaged++
			}
			s := mailtest.Must(skeletonOf(t.Context(), m, nil, nil))
			c := corpusMail{name: set + "/" + row[0], set: set, spam: row[1] == "spam", cluster: clusters[row[0]],
				exact: mailtest.Must(exactSum(t.Context(), m, s, nil)), to: m.To}
			c.words = &s.words
			if c.bands = key.bands(c.words, key.hashed(c.words), 0); c.bands == nil {
				c.words, c.quoted = &s.quoted, true
				c.bands = key.bands(c.words, key.hashed(c.words), quotedSalt)
			}
			if c.bands == nil && c.exact == nil {
				none++
			}
			for i := range m.Parts {
				if p := &m.Parts[i]; p.IsText() && !p.Attachment && (p.Alternative == 0 || p.HTML) {
					c.visible = append(append(c.visible, mailtest.Must(m.Visible(t.Context(), i))...), '\n')
				}
			}
			mails = append(mails, c)
		}
	}
	t.Logf("%d messages read, none failed; %d with damage, %d without own signatures", len(mails), damaged, none)
	return mails
}

func readTable(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%s: %d rows, %v", path, len(rows), err)
	}
	return rows[1:]
}

// equalBands returns how many bands two messages share.
func equalBands(a, b [][nearSum]byte) int {
	n := 0
	for i := range a {
		if i < len(b) && a[i] == b[i] {
			n++
		}
	}
	return n
}

// atLeast turns a histogram into the counts of "this many or more".
func atLeast(histogram []int) []int {
	sum := slices.Clone(histogram)
	for i := len(sum) - 2; i >= 0; i-- {
		sum[i] += sum[i+1]
	}
	return sum
}

// TestCorpus measures bulkhead/near on real mail: how many near-duplicates it
// finds, how many unrelated messages it takes for one, and how long it holds
// out against the attacks named by Yan and Cho (2006, section 2). The figures
// are printed with -v; what the package promises is checked.
func TestCorpus(t *testing.T) {
	mails := loadCorpus(t)
	t.Run("duplicates", func(t *testing.T) { testDuplicates(t, mails) })
	t.Run("unrelated", func(t *testing.T) { testUnrelated(t, mails) })
	t.Run("attacks", func(t *testing.T) { testAttacks(t, mails) })
	t.Run("exact", func(t *testing.T) { testExactClasses(t, mails) })
}

// testDuplicates looks at pairs of the reference clusters: each message with
// its predecessor, and with a random earlier one.
func testDuplicates(t *testing.T, mails []corpusMail) {
	members := make(map[int][]int)
	for i := range mails {
		if c := mails[i].cluster; c > 0 {
			members[c] = append(members[c], i)
		}
	}
	clusters := make([]int, 0, len(members))
	for c := range members {
		clusters = append(clusters, c)
	}
	slices.Sort(clusters)
	r := rand.New(rand.NewPCG(1, 1))
	histogram := map[string][]int{}
	for _, c := range clusters {
		in := members[c]
		for i := 1; i < len(in) && i <= 20; i++ {
			for _, j := range []int{in[i-1], in[r.IntN(i)]} {
				a, b := &mails[in[i]], &mails[j]
				kind := a.set + " ham"
				if a.spam {
					kind = a.set + " spam"
				}
				if histogram[kind] == nil {
					histogram[kind] = make([]int, NearBands+2)
				}
				if a.bands == nil || b.bands == nil {
					histogram[kind][NearBands+1]++ // too little text
					continue
				}
				histogram[kind][equalBands(a.bands, b.bands)]++
			}
		}
	}
	kinds := make([]string, 0, len(histogram))
	for kind := range histogram {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	t.Log("share of near-duplicate pairs with at least m equal bands " +
		"(replies that quote a message count as its duplicates in the reference):")
	for _, kind := range kinds {
		h := histogram[kind]
		short := h[NearBands+1]
		sum := atLeast(h[:NearBands+1])
		share := func(m int) float64 { return float64(sum[m]) / float64(max(1, sum[0])) }
		t.Logf("%-28s %5d pairs, %3d below the floor: m=1 %.3f  2 %.3f  3 %.3f  4 %.3f  6 %.3f  8 %.3f  12 %.3f",
			kind, sum[0]+short, short, share(1), share(2), share(3), share(4), share(6), share(8), share(12))
		if strings.HasSuffix(kind, "spam") && share(NearMatch) < 0.9 {
			t.Errorf("%s: only %.3f of the near-duplicate pairs share %d bands, want 0.9", kind, share(NearMatch), NearMatch)
		}
	}
}

// testUnrelated compares every message with every earlier one of another
// cluster.
func testUnrelated(t *testing.T, mails []corpusMail) {
	known := make(map[[nearSum]byte][]int32)
	pairs, mixed := make([]int, NearBands+1), make([]int, NearBands+1)
	hamKnown := make([]int, NearBands+1) // ham by the number of its bands that any spam has
	spamBands := make(map[[nearSum]byte]bool)
	signed := 0
	for i := range mails {
		a := &mails[i]
		if a.bands == nil {
			continue
		}
		signed++
		count := make(map[int32]int)
		for _, band := range a.bands {
			for _, j := range known[band] {
				if b := &mails[j]; b.cluster == 0 || b.cluster != a.cluster {
					count[j]++
				}
			}
			known[band] = append(known[band], int32(i))
			if a.spam {
				spamBands[band] = true
			}
		}
		for j, n := range count {
			pairs[n]++
			if mails[j].spam != a.spam {
				mixed[n]++
			}
		}
	}
	ham := 0
	for i := range mails {
		if a := &mails[i]; !a.spam && a.bands != nil {
			ham++
			n := 0
			for _, band := range a.bands {
				if spamBands[band] {
					n++
				}
			}
			hamKnown[n]++
		}
	}
	all := float64(signed) * float64(signed-1) / 2
	p, m, h := atLeast(pairs), atLeast(mixed), atLeast(hamKnown)
	t.Logf("%.3g pairs of messages that are not in one cluster", all)
	for n := 1; n <= 4; n++ {
		t.Logf("at least %d equal bands: %.2g of the pairs, %d pairs of ham and spam; "+
			"%d of %d ham share them with the spam taken together",
			n, float64(p[n])/all, m[n], h[n], ham)
	}
	if rate := float64(p[NearMatch]) / all; rate > 1e-4 {
		t.Errorf("%.2g of the unrelated pairs match, want 1e-4 at most", rate)
	}
	if m[NearMatch] > 0 || h[NearMatch] > 0 {
		t.Errorf("%d pairs of ham and spam match, %d ham match the spam taken together; want none", m[NearMatch],
			h[NearMatch])
	}
}

// testExactClasses checks that no ham has the exact signature of a spam.
func testExactClasses(t *testing.T, mails []corpusMail) {
	spam := make(map[string]string)
	same, signed := 0, 0
	seen := make(map[string]bool)
	for i := range mails {
		m := &mails[i]
		if m.exact == nil {
			continue
		}
		signed++
		if seen[string(m.exact)] {
			same++
		}
		seen[string(m.exact)] = true
		if m.spam {
			spam[string(m.exact)] = m.name
		}
	}
	for i := range mails {
		if m := &mails[i]; !m.spam && m.exact != nil && spam[string(m.exact)] != "" {
			t.Errorf("ham %s and spam %s have the same exact signature", m.name, spam[string(m.exact)])
		}
	}
	t.Logf("%d messages with an exact signature, %d of them repeat an earlier one", signed, same)
}

// testAttacks changes spam as spammers do and counts who is still found.
func testAttacks(t *testing.T, mails []corpusMail) {
	r := rand.New(rand.NewPCG(2, 2))
	var pool []*corpusMail
	words := make(map[string]bool)
	for i := range mails {
		m := &mails[i]
		if m.spam && m.bands != nil && !m.quoted {
			pool = append(pool, m)
		}
		if i%5 == 0 {
			for _, w := range strings.Fields(string(m.visible)) {
				if len(w) > 2 && len(w) < 12 && strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") == "" {
					words[w] = true
				}
			}
		}
	}
	a := attacker{r: r}
	for w := range words {
		a.dictionary = append(a.dictionary, w)
	}
	slices.SortFunc(a.dictionary, cmp.Compare)
	r.Shuffle(len(pool), func(i, j int) { pool[i], pool[j] = pool[j], pool[i] })
	pool = pool[:min(len(pool), 400)]
	key := newNearKey([16]byte{7})
	bands := func(text []byte, to []string) [][nearSum]byte {
		f := folder{recipient: recipientWords(to)}
		f.add(text, false)
		return key.bands(&f.words, key.hashed(&f.words), 0)
	}
	for _, attack := range attacks {
		for i, p := range attack.intensities {
			found, all := make([]int, NearBands+1), 0
			for _, m := range pool {
				before := bands(m.visible, m.to)
				if before == nil {
					continue
				}
				all++
				found[equalBands(before, bands([]byte(attack.change(&a, string(m.visible), p)), m.to))]++
			}
			share := func(n int) float64 { return float64(atLeast(found)[n]) / float64(all) }
			t.Logf("%-34s %4.0f %%: matched by 1 band %.3f, 2 bands %.3f, 3 bands %.3f, 4 bands %.3f", attack.name,
				100*p, share(1), share(2), share(3), share(4))
			if share(NearMatch) < attack.floor[i] {
				t.Errorf("%s at %.2f: %.3f found, want at least %.2f", attack.name, p, share(NearMatch), attack.floor[i])
			}
		}
	}
}
