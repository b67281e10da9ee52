package doors

import (
	"bufio"
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// TestFairShare checks for any limit that all doors together leave the reserve, unless each has a single
// place, and that no door has more than is configured.
func TestFairShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 1<<20).Draw(t, "limit")
		doors := rapid.IntRange(0, 12).Draw(t, "doors")
		configured := rapid.IntRange(1, 1<<16).Draw(t, "configured")
		got := fairShare(limit, doors, configured)
		if got < 1 || got > configured {
			t.Fatalf("%d places of %d", got, configured)
		}
		if limit > 0 && doors > 0 && got > 1 && got*doors+reservedDescriptors > limit {
			t.Fatalf("%d doors of %d places leave %d of %d descriptors", doors, got, limit-got*doors, limit)
		}
		if limit == 0 && got != configured {
			t.Fatalf("%d places without a known limit, want %d", got, configured)
		}
	})
}

// TestShareDescriptors checks that a node whose doors are configured for more connections than it may
// have descriptors gives each door fewer, and warns.
func TestShareDescriptors(t *testing.T) {
	if descriptorLimit() <= 0 {
		t.Skip("the limit is unknown")
	}
	for _, tt := range []struct {
		configured int
		warns      bool
	}{{1, false}, {1 << 30, true}} {
		var out bytes.Buffer
		cfg := config.Default()
		cfg.Limits.Connections = tt.configured
		s := &Set{opts: Options{Log: slog.New(slog.NewTextHandler(&out, nil))}}
		s.shareDescriptors(cfg)
		if warned := strings.Contains(out.String(), "too low"); warned != tt.warns {
			t.Errorf("%d connections: warned %v, want %v", tt.configured, warned, tt.warns)
		}
		if got, doors := s.connections(), streamDoors(cfg); got > tt.configured || got*doors > descriptorLimit() {
			t.Errorf("%d connections: %d for each of %d doors", tt.configured, got, doors)
		}
	}
}

// TestOverloaded checks that the answer of a full HTTP door is a whole answer.
func TestOverloaded(t *testing.T) {
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(overloaded)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var body bytes.Buffer
	if n, err := body.ReadFrom(r.Body); err != nil || n != r.ContentLength || r.StatusCode != 503 || !r.Close {
		t.Errorf("%s, %d of %d bytes, %v", r.Status, n, r.ContentLength, err)
	}
}
