package signature

import (
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
)

// TestRspamdSignatures: a message read whole is known by what rspamd asks for.
func TestRspamdSignatures(t *testing.T) {
	of := func(raw []byte, opts Options) (texts, bands []bulkhead.Signature) {
		t.Helper()
		sigs, err := Compute(t.Context(), raw, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, sig := range sigs {
			switch sig.Scheme() {
			case bulkhead.RspamdText:
				texts = append(texts, sig)
			case bulkhead.RspamdShingle:
				bands = append(bands, sig)
			}
		}
		return texts, bands
	}
	long := mailtest.Plain(mailtest.Letter + mailtest.Letter)
	want := mailtest.Must(rspamd.NewHasher("", "", rspamd.MumHash).Hashes(t.Context(), long, rspamd.Policy{}))
	if len(want) != 1 || want[0].Shingles == nil {
		t.Fatalf("the letter gives %d hashes", len(want))
	}
	texts, bands := of(long, Options{})
	if len(texts) != 1 || texts[0] != want[0].Signature() {
		t.Errorf("digests %v, want %v", texts, want[0].Signature())
	}
	if all := rspamd.AppendBands(nil, want[0].Shingles, rspamd.Votes); !slices.Equal(bands, all) {
		t.Errorf("bands %v, want %v", bands, all)
	}
	own, ownBands := of(long, Options{Rspamd: rspamd.NewHasher("ours", "", rspamd.XXHash)})
	if len(own) != 1 || own[0] == texts[0] || len(ownBands) != rspamd.Bands || ownBands[0] == bands[0] {
		t.Error("a key and an algorithm of one's own change nothing")
	}
	if texts, bands := of(long, Options{Skip: []bulkhead.Scheme{bulkhead.RspamdShingle}}); len(texts) != 1 ||
		len(bands) != 0 {
		t.Errorf("without bands: %d digests, %d bands", len(texts), len(bands))
	}
	if texts, bands := of(mailtest.Plain(strings.Repeat(mailtest.Letter, 12)), Options{}); len(texts) != 1 ||
		len(bands) != rspamd.Bands {
		t.Errorf("a long text has %d digests and %d bands", len(texts), len(bands))
	}
	if texts, bands := of(mailtest.Plain("Thank you!\n"), Options{}); len(texts)+len(bands) != 0 {
		t.Errorf("a short text has %d digests and %d bands", len(texts), len(bands))
	}
	data := strings.Repeat("JVBERi0xLjQK", 200)
	texts, _ = of(mailtest.Composed("multipart/mixed; boundary=b", "7bit",
		"--b\nContent-Type: text/plain\n\n"+mailtest.Letter+mailtest.Letter+
			"\n--b\nContent-Type: image/png\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\n"+
			data+"\n--b--\n"), Options{})
	if len(texts) != 2 {
		t.Errorf("text and attachment have %d digests, want 2", len(texts))
	}
}
