package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/testing/prototest"
)

// TestOneExamination: examinations do not overlap, and a new one can run after the last has ended,
// in success or failure.
func TestOneExamination(t *testing.T) {
	running, end := make(chan bool), make(chan error)
	s := newServer(t, &prototest.House{}, func(o *Options) {
		o.Examine = func(context.Context) (*admin.Examination, error) {
			running <- true
			return &admin.Examination{Folder: "data", Faults: []admin.Fault{}, Doubts: []admin.Doubt{}}, <-end
		}
	})
	admin := []string{"Authorization", "Bearer token-alice"}
	for _, tt := range []struct {
		err  error
		code int
		want string
	}{{nil, http.StatusOK, `"folder":"data"`},
		{errors.New("unreadable"), http.StatusInternalServerError, "internal error"}, {nil, http.StatusOK, `"faults":[]`}} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if w := send(s, local, "GET", "/v1/examination", "", "", admin...); w.Code != tt.code ||
				!strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, tt.code, tt.want)
			}
		}()
		<-running
		if w := send(s, local, "GET", "/v1/examination", "", "", admin...); w.Code != http.StatusConflict {
			t.Errorf("a second one beside it: %d %s", w.Code, w.Body)
		}
		end <- tt.err
		<-done
	}
	if w := send(s, local, "GET", "/v1/examination", "", ""); w.Code != http.StatusForbidden &&
		w.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", w.Code)
	}
}
