package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/cli"
)

// TestExitCodes checks the exit codes for a node that does not answer, or will never accept the
// message.
func TestExitCodes(t *testing.T) {
	release := make(chan struct{})
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   cli.Code
	}{
		{"silent", func(http.ResponseWriter, *http.Request) { <-release }, cli.Unavailable},
		{"gone", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, cli.Unavailable},
		{"gone in the middle", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("{"))
		}, cli.Unavailable},
		{"too large", problemHandler(http.StatusRequestEntityTooLarge), cli.Data},
		{"too often", problemHandler(http.StatusTooManyRequests), cli.Temporary},
		{"read-only", problemHandler(http.StatusServiceUnavailable), cli.Temporary},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := httptest.NewServer(tt.answer)
			defer node.Close()
			if tt.name == "silent" {
				defer close(release)
			}
			var out, errs bytes.Buffer
			args := []string{"check", "--server", node.URL, "--timeout", "300ms", "-"}
			if code := run(args, strings.NewReader("Subject: a\n\nb\n"), &out, &errs); code != int(tt.want) {
				t.Errorf("exit code %d, want %d: %s", code, int(tt.want), errs.String())
			}
		})
	}
}

func problemHandler(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"title":"no","status":%d}`, status)
	}
}

// TestAnswerThatIsLost checks that a check whose answer cannot be written is a failure, which is reported
// once for all messages.
func TestAnswerThatIsLost(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"judged":"none","reasons":["never seen"],"findings":[]}`))
	}))
	defer node.Close()
	for _, flags := range [][]string{nil, {"--json"}} {
		var errs bytes.Buffer
		args := append([]string{"check", "--server", node.URL, "-"}, flags...)
		const from = "From a Sat Jan  3 01:05:34 2026\n"
		mbox := strings.NewReader(from + "Subject: a\n\nb\n\n" + from + "Subject: b\n\nb\n")
		if code := run(args, mbox, fullDisk{}, &errs); code != int(cli.Software) ||
			strings.Count(errs.String(), "no space left") != 1 {
			t.Errorf("%q: exit code %d, want %d: %s", flags, code, int(cli.Software), errs.String())
		}
	}
}

// fullDisk is a writer that always fails.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }
