package ratelimit

import "testing"

// TestInternationalNames checks that the two spellings of a domain make one key.
func TestInternationalNames(t *testing.T) {
	for _, tt := range []struct{ template, value, want string }{
		{"{sender}", "Ann@BÜCHER.example", "ann@xn--bcher-kva.example"},
		{"{sender}", "ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"},
		{"{sender:domain}", "ann@Bücher.example", "xn--bcher-kva.example"},
		{"{sender:domain}", "ann@xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"{sender:local}", "jürgen@bücher.example", "jürgen"},
		{"{sender}", "jürgen@bücher.example", "jürgen@xn--bcher-kva.example"},
		{"{sender}", "ann@\xff.example", "ann@\xff.example"},
		{"{sender}", "ann@a..\u00fc", "ann@a..xn--tda"},
	} {
		tmpl, err := ParseTemplate(tt.template)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := tmpl.append(nil, func(string) []byte { return []byte(tt.value) }, false)
		if !ok || string(got) != tt.want {
			t.Errorf("%s of %q: %q, %t, want %q", tt.template, tt.value, got, ok, tt.want)
		}
	}
}
