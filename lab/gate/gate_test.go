package gate_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
	"github.com/bulkhead-mail/bulkhead/lab/gate"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "stub" { // TestBeside runs it
		if err := gate.ServeStub(context.Background(), os.Args[2], os.Args[3], os.Args[4]); err != nil {
			panic(err)
		}
		return
	}
	nodetest.Main(m)
}

// TestBeside checks no times, only that node and stub answer both protocols and are measured.
func TestBeside(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Rel(here, nodetest.Binary(t)) // as make names it
	if err != nil {
		t.Fatal(err)
	}
	o := gate.Options{New: program, Rounds: gate.MinRounds, Slice: 50 * time.Millisecond, Limit: 1.25}
	rows, err := gate.Beside(t.Context(), o, []string{os.Args[0], "stub"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	for _, r := range rows {
		if r.Missing != nil || r.Old <= 0 || r.New <= 0 {
			t.Errorf("%s is no comparison: %+v", r.Case, r)
		}
	}
	if _, err := gate.Beside(t.Context(), o, []string{"/nonexistent"}, io.Discard); err == nil {
		t.Error("a stub that does not start: no error")
	}
}

// TestCompare compares a build with itself. It checks no times, only that each door answers and is measured.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	program := nodetest.Binary(t)
	var out strings.Builder
	rows, err := gate.Compare(t.Context(), gate.Options{
		Old: program, New: program, Rounds: gate.MinRounds, Slice: 150 * time.Millisecond, Limit: 1.1,
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 12 {
		t.Errorf("%d rows, want at least 12", len(rows))
	}
	for _, r := range rows {
		if r.Missing != nil {
			t.Errorf("%s: %v", r.Case, r.Missing)
			continue
		}
		if r.Old <= 0 || r.New <= 0 || r.Low > r.Ratio || r.Ratio > r.High || r.Low <= 0 {
			t.Errorf("%s is no comparison: %+v", r.Case, r)
		}
		if !strings.Contains(out.String(), r.Case) {
			t.Errorf("the table lacks %s:\n%s", r.Case, &out)
		}
	}
}

func TestCompareRefuses(t *testing.T) {
	good := gate.Options{Old: "/nonexistent/old", New: "/nonexistent/new", Rounds: 6, Slice: time.Second, Limit: 1.1}
	for name, change := range map[string]func(*gate.Options){
		"too few rounds":     func(o *gate.Options) { o.Rounds = 5 },
		"too many rounds":    func(o *gate.Options) { o.Rounds = 101 },
		"short measurements": func(o *gate.Options) { o.Slice = time.Millisecond },
		"no limit":           func(o *gate.Options) { o.Limit = 1 },
		"no program":         func(*gate.Options) {},
	} {
		o := good
		change(&o)
		if _, err := gate.Compare(t.Context(), o, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
