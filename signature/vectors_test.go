package signature

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/internal/mail/link"
)

// eachVector reads the objects of a file of testdata/vectors/facets.
func eachVector[T any](t *testing.T, file string, check func(T)) {
	t.Helper()
	text, err := os.ReadFile("../testdata/vectors/facets/" + file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for dec := json.NewDecoder(bytes.NewReader(text)); dec.More(); n++ {
		var v T
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s, object %d: %v", file, n+1, err)
		}
		check(v)
	}
	if n < 5 {
		t.Fatalf("%d vectors in %s", n, file)
	}
}

// TestFacetVectors holds the facets to docs/specs/facets.md#vectors.
func TestFacetVectors(t *testing.T) {
	type linkVector struct {
		Link  string
		Names [][2]string
	}
	eachVector(t, "links.jsonl", func(v linkVector) {
		var got [][2]string
		for _, l := range link.All(v.Link) {
			got = append(got, [2]string{l.Domain, l.Place()})
		}
		if !slices.Equal(got, v.Names) {
			t.Errorf("%q: %q, want %q", v.Link, got, v.Names)
		}
	})
	type contactVector struct {
		Text  string
		Names []string
	}
	eachVector(t, "contacts.jsonl", func(v contactVector) {
		if got := contactsIn(v.Text); !slices.Equal(got, v.Names) {
			t.Errorf("%q: %q, want %q", v.Text, got, v.Names)
		}
	})
	type senderVector struct {
		Source     client.Source
		Signatures []bulkhead.Signature
	}
	eachVector(t, "senders.jsonl", func(v senderVector) {
		if got := Senders(v.Source.Bulkhead()); !slices.Equal(got, v.Signatures) {
			t.Errorf("%+v: %q, want %q", v.Source, names(got), names(v.Signatures))
		}
	})
	type partVector struct {
		Own, Beside, Quoted string
		Signatures          []bulkhead.Signature
	}
	key := newNearKey([16]byte{})
	eachVector(t, "parts.jsonl", func(v partVector) {
		var s skeleton
		for list, text := range map[*wordList]string{&s.words: v.Own, &s.rest: v.Beside, &s.quoted: v.Quoted} {
			for _, w := range strings.Fields(text) {
				list.add([]byte(w))
			}
		}
		if got := parts(&s, key.hashes(&s)); !slices.Equal(got, v.Signatures) {
			t.Errorf("%.60q, %.60q, %.60q: %v, want %v", v.Own, v.Beside, v.Quoted, got, v.Signatures)
		}
	})
	type mailVector struct {
		Mail       []byte
		Signatures []bulkhead.Signature
	}
	eachVector(t, "mails.jsonl", func(v mailVector) {
		got := slices.DeleteFunc(compute(t, v.Mail), func(s bulkhead.Signature) bool {
			return s.Scheme().Facet() == bulkhead.TextFacet || s.Scheme() == bulkhead.Sketch
		})
		if !slices.Equal(got, v.Signatures) {
			t.Errorf("%.200q: %v, want %v", v.Mail, got, v.Signatures)
		}
	})
}
