package signature

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
)

// TestFacetsOfCorpus prints how many messages of the corpus have each facet, and
// wants telephone numbers and wallets to be rare in ham: they would be dates or order
// numbers there.
func TestFacetsOfCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("reads thousands of messages")
	}
	type figures struct{ messages, below, links, domains, contacts, attachments, markup int }
	var skip []bulkhead.Scheme
	for _, scheme := range bulkhead.Schemes() {
		if f := scheme.Facet(); f == bulkhead.TextFacet && scheme != bulkhead.Exact && scheme != bulkhead.Near {
			skip = append(skip, scheme)
		}
	}
	for _, set := range []string{"spamassassin-2002", "csdmc-2009-2010", "phishing-pot-2023-2024", "lists-2019-2020"} {
		dir := sharedtest.Unpack(t, set)
		of := map[string]*figures{"ham": {}, "spam": {}}
		for i, row := range readTable(t, filepath.Join(dir, "index.tsv")) {
			if i%4 > 0 {
				continue
			}
			raw := mailtest.Must(os.ReadFile(filepath.Join(dir, row[0])))
			f := of[row[1]]
			f.messages++
			seen := make(map[bulkhead.Scheme]int)
			for _, sig := range mailtest.Must(signaturesOf(t.Context(), mailtest.Must(mail.Read(t.Context(), raw)),
				Options{Skip: skip})) {
				seen[sig.Scheme()]++
				if sig.Scheme() == bulkhead.Contact {
					t.Logf("%s %s/%s: %s", row[1], set, row[0], sig.Name())
				}
			}
			for _, has := range []struct {
				scheme bulkhead.Scheme
				count  *int
			}{{bulkhead.Link, &f.links}, {bulkhead.Contact, &f.contacts}, {bulkhead.Attachment, &f.attachments},
				{bulkhead.Markup, &f.markup}} {
				if seen[has.scheme] > 0 {
					*has.count++
				}
			}
			f.domains += seen[bulkhead.Link]
			if seen[bulkhead.Exact]+seen[bulkhead.Near] == 0 {
				f.below++
			}
		}
		for label, f := range of {
			if f.messages == 0 {
				continue
			}
			t.Logf("%s %s: of %d messages %d have no text, %d links (%d signatures), "+
				"%d contacts, %d attachments, %d mark-up", set, label,
				f.messages, f.below, f.links, f.domains, f.contacts, f.attachments, f.markup)
			if label == "ham" && f.contacts*5 > f.messages {
				t.Errorf("%s: %d of %d ham have a contact", set, f.contacts, f.messages)
			}
		}
	}
}
