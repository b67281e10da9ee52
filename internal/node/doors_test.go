package node

import (
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// TestDoorsFailTogether checks that every door checks a configuration, whatever their order.
func TestDoorsFailTogether(t *testing.T) {
	cfg := parse(t, "[dccifd]\nwords = \"/nowhere/words\"\n[[fuzzy.keys]]\nname = \"k\"\n"+
		"secret = \""+strings.Repeat("0", 52)+"\"\n")
	err := CheckConfig(cfg)
	for _, key := range []string{"dccifd.words", "fuzzy.keys.secret"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("CheckConfig = %v, want a mistake of %s", err, key)
		}
	}
	if err := CheckConfig(config.Default()); err != nil {
		t.Errorf("the default configuration: %v", err)
	}
}
