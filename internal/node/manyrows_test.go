package node

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/logbook"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

var pageRows = flag.Int("rows", 2000, "entries of the history in TestPagesOfManyRows")

// remember fills the history of a data folder with checks of the last days. A tenth of them belong
// to 500 campaigns.
func remember(t *testing.T, dir string, rows int) {
	t.Helper()
	now := clock.Now().Add(-time.Duration(rows) * 100 * time.Millisecond)
	book, err := logbook.Open(filepath.Join(dir, historyFile),
		logbook.Options{MaxBytes: 8 << 30, MaxAge: 30 * 24 * time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	house := logbook.NewHouse(bulkhead.CounterOf(prototest.NewTally(3)), book, "milter")
	r := rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		now = now.Add(100 * time.Millisecond)
		text := 1_000_000 + i
		if r.IntN(10) == 0 {
			text = r.IntN(500)
		}
		sum := func(kind, n int) []byte {
			return append([]byte{byte(kind), byte(n), byte(text), byte(text >> 8), byte(text >> 16)}, make([]byte, 11)...)
		}
		sigs := []bulkhead.Signature{bulkhead.MustSignature(bulkhead.Exact, sum(1, 0)),
			bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("shop%d.example.net/", text))}
		for n := range 20 {
			sigs = append(sigs, bulkhead.MustSignature(bulkhead.Near, sum(2, n)),
				bulkhead.MustSignature(bulkhead.RspamdShingle, sum(3, n)))
		}
		if _, err := house.Check(context.Background(),
			bulkhead.Query{Signatures: sigs, Source: bulkhead.Source{From: fmt.Sprintf("a@%d.example.com", text)}}); err != nil {
			t.Fatal(err)
		}
		if i%1024 == 0 {
			book.Flush()
		}
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if lost := book.Stats.Lost.Load() + book.Stats.Failed.Load(); lost > 0 {
		t.Fatalf("%d entries are lost", lost)
	}
}

// TestPagesOfManyRows requests the pages of the history through HTTP. It logs how long each takes,
// for docs/operations.md.
func TestPagesOfManyRows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	cfg := parse(t, "[listen]\nhttp = \"127.0.0.1:0\"\n[history]\nsize_bytes = 8_000_000_000\ndays = 30")
	_, stop := start(t, Options{Config: cfg, Dir: dir})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	remember(t, dir, *pageRows)
	n, _ := start(t, Options{Config: cfg, Dir: dir})
	token, err := ReadSecret(n.AdminTokenFile())
	if err != nil {
		t.Fatal(err)
	}
	base := address(t, n, "http")
	b := newBrowser(t, base)
	logIn(t, b, admin.New(base, token))
	// A signature with a vote and no other entry: the look-up asks the history for it.
	voted := bulkhead.MustSignature(bulkhead.Exact, []byte("voted on and rare"[:16]))
	rare := voted.String()
	report := bulkhead.Report{Vote: bulkhead.Spam, Signatures: []bulkhead.Signature{voted}}
	if _, err := (admin.New(base, token)).Report(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	middle := clock.Now().Add(-time.Duration(*pageRows/2) * 100 * time.Millisecond).UnixMicro()
	for _, path := range []string{
		"/", "/waves", "/history", "/history?q=is:caught", "/history?q=is:reported+since:24h", "/history?q=is:waiting",
		"/history?q=from:7.example.com+link:shop7.example.net", "/history?domain=7.example.com", "/history?door=milter",
		"/history?domain=nobody.example.org",
		fmt.Sprintf("/history?before=%d", middle), "/history?class=spam", "/history?kind=spam", "/history?reporter=nobody",
		"/history?message_id=none@example.com",
		"/history?signature=" + url.QueryEscape(rare), "/people", "/v1/history?limit=500", "/v1/verdicts?slot=1h",
		"POST /lookup " + rare, "POST /people undo",
	} {
		var took []time.Duration
		for range 20 {
			begun := time.Now()
			var status int
			var page string
			switch {
			case strings.HasPrefix(path, "POST /lookup "):
				status, page = b.paste(rare)
			case strings.HasPrefix(path, "POST /people"):
				status, page = b.agree("/people", url.Values{"name": {"admin"}, "do": {"undo"}, "days": {"30"}})
			default:
				status, page = b.get(path)
			}
			took = append(took, time.Since(begun))
			if status != 200 || len(page) < 100 {
				t.Fatalf("%s: %d %.300s", path, status, page)
			}
		}
		slices.Sort(took)
		t.Logf("%s, %d entries: median %v, longest %v", path, *pageRows, took[len(took)/2].Round(time.Millisecond),
			took[len(took)-1].Round(time.Millisecond))
	}
}
