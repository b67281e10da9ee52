package signature_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/internal/testing/enginetest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/mailtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/sharedtest"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// TestReportedIsKnown checks that a report that was accepted makes the same file known. It takes a sample of the
// corpora, and all of them with BULKHEAD_FULL=1.
func TestReportedIsKnown(t *testing.T) {
	every := 40
	switch {
	case os.Getenv("BULKHEAD_FULL") == "1":
		every = 1
	case testing.Short():
		every = 200
	}
	accepted, refused := 0, 0
	for _, set := range []string{"spamassassin-2002", "csdmc-2009-2010", "phishing-2004-2005", "phishing-pot-2023-2024",
		"lists-2019-2020"} {
		files := mailtest.Must(filepath.Glob(filepath.Join(sharedtest.Unpack(t, set), "*.eml")))
		for i := 0; i < len(files); i += every {
			m := mailtest.Must(mail.Read(t.Context(), mailtest.Must(os.ReadFile(files[i]))))
			sigs := mailtest.Must(signature.Compute(mail.WithMessage(t.Context(), m), m.Raw,
				signature.Options{AboveFloor: true}))
			e := enginetest.Small(t, nil)
			_, err := e.Report(t.Context(), bulkhead.Report{Signatures: sigs, Vote: bulkhead.Spam, Source: m.Source()})
			if errors.Is(err, bulkhead.ErrMalformed) {
				refused++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			accepted++
			v := mailtest.Must(e.Check(t.Context(), bulkhead.Query{Signatures: sigs, Source: m.Source()}))
			if v.Class != bulkhead.ClassSpam && v.Class != bulkhead.ClassSuspected {
				t.Errorf("%s/%s was reported and is %v: %v", set, filepath.Base(files[i]), v.Class, sigs)
			}
		}
	}
	t.Logf("%d reports were accepted, %d refused", accepted, refused)
	if accepted < 10*refused {
		t.Errorf("%d reports were accepted, %d refused", accepted, refused)
	}
}
