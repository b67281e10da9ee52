package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// TestHashingOf checks that the node hashes whole messages by the rule in the configuration.
func TestHashingOf(t *testing.T) {
	raw := []byte("Subject: mill\n\n" + strings.Repeat("the miller counts forty sacks before noon\n", 6)) // 42 words
	of := func(change func(*config.Fuzzy)) (sigs []bulkhead.Signature) {
		t.Helper()
		cfg := config.Default()
		change(&cfg.Fuzzy)
		opts, err := hashingOf(cfg, filter.Secret{1})
		if err != nil {
			t.Fatal(err)
		}
		all, err := signature.Compute(t.Context(), raw, opts)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(s bulkhead.Signature) bool {
			return s.Scheme() != bulkhead.RspamdText && s.Scheme() != bulkhead.RspamdShingle
		})
	}
	whole := of(func(*config.Fuzzy) {})
	words := of(func(f *config.Fuzzy) { f.MinLength = 32 })
	if len(whole) != 1 || len(words) != 1+rspamd.Bands {
		t.Fatalf("%d signatures by default, %d with a short min_length", len(whole), len(words))
	}
	for name, other := range map[string][]bulkhead.Signature{
		"hash_key":  of(func(f *config.Fuzzy) { f.MinLength, f.HashKey = 32, "ours" }),
		"min_bytes": of(func(f *config.Fuzzy) { f.MinBytes = 1 << 20 }),
	} {
		if len(other) > 0 && (other[0] == words[0] || other[0] == whole[0]) {
			t.Errorf("%s changes nothing", name)
		}
	}
	for name, other := range map[string][]bulkhead.Signature{
		"shingles_key": of(func(f *config.Fuzzy) { f.MinLength, f.ShinglesKey = 32, "ours" }),
		"algorithm":    of(func(f *config.Fuzzy) { f.MinLength, f.Algorithm = 32, "siphash" }),
	} {
		if other[0] != words[0] || other[1] == words[1] {
			t.Errorf("%s does not change the bands alone", name)
		}
	}
	raw = []byte("Subject: mill\n\nthe miller counts forty sacks before noon and signs for them\n")
	if n, m := len(of(func(*config.Fuzzy) {})), len(of(func(f *config.Fuzzy) { f.MinBytes = 0 })); n != 0 || m != 1 {
		t.Errorf("a short text has %d signatures, %d without min_bytes; want 0 and 1", n, m)
	}
}

// TestReadStopWords checks that an absent list changes nothing, and a damaged one is an error.
func TestReadStopWords(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": `{"en": ["the", "of"]}`, "bad": `{"en": [`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, ok := range map[string]bool{"": true, filepath.Join(dir, "none"): true, filepath.Join(dir, "good"): true,
		filepath.Join(dir, "bad"): false, dir: false} {
		if err := readLanguages(rspamd.NewHasher("", "", rspamd.MumHash), name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestReadEnds checks that computing a message's signatures ends with the context.
func TestReadEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sigs, _, err := messages{new(core)}.Read(ctx, []byte("Subject: mill\n\nthe miller counts\n"))
	if !errors.Is(err, context.Canceled) || sigs != nil {
		t.Errorf("read = %v, %v; want the context's error alone", sigs, err)
	}
}
