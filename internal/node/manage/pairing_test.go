package manage

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead"
)

func TestHubAddress(t *testing.T) {
	for listen, want := range map[string]string{"192.0.2.1:8421": "192.0.2.1:8421",
		"[2001:db8::1]:1": "[2001:db8::1]:1", "mx.example.com:8421": "mx.example.com:8421"} {
		if got, err := hubAddress(listen); err != nil || got != want {
			t.Errorf("%s: %s, %v", listen, got, err)
		}
	}
	for _, listen := range []string{":8421", "0.0.0.0:8421", "[::]:8421"} {
		if got, err := hubAddress(listen); err != nil || strings.HasPrefix(got, ":") ||
			strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":8421") {
			t.Errorf("%s: %s, %v", listen, got, err)
		}
	}
	if _, err := hubAddress("nonsense"); !errors.Is(err, bulkhead.ErrMalformed) {
		t.Error(err)
	}
}
