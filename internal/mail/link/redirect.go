package link

import (
	"encoding/base64"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// All returns the link of a text, and behind it those that it redirects to: what
// is a link itself, as a parameter of the query, as a part of the path, or behind the
// path's fragment sign, as it is, percent-encoded up to three times, in base 64, or as
// gateways write it that rewrite links. It returns none if the text is no link, and 4 at most.
func All(text string) []Link { return new(Reader).All(text, nil) }

// All is the function [All]. Its result is in the memory of room, as far as that suffices.
func (r *Reader) All(text string, room []Link) []Link {
	l, ok := r.parse(text)
	if !ok {
		return room[:0]
	}
	all := append(room[:0], l)
	if _, fragment, ok := strings.Cut(text[:min(len(text), MaxURL)], "#"); ok {
		all = r.appendTarget(all, "", strings.TrimPrefix(fragment, "/"))
	}
	for at := 0; at < len(all); at++ {
		path, query, _ := strings.Cut(all[at].Path, "?")
		if i := schemeIn(path); i > 0 {
			inner := path[i:]
			if query != "" {
				inner += "?" + query
			}
			all = r.appendLink(all, inner)
		}
		if name, ok := strings.CutSuffix(all[at].Host, ".translate.goog"); ok {
			all = r.appendLink(all, "http://"+translated.Replace(name)+all[at].Path)
		}
		if _, page, ok := strings.Cut(path, "/amp/s/"); ok {
			all = r.appendLink(all, "http://"+page)
		}
		for query != "" {
			end := 0
			for end < len(query) && query[end] != '&' && query[end] != ';' {
				end++
			}
			name, value, _ := strings.Cut(query[:end], "=")
			all = r.appendTarget(all, name, value)
			query = query[min(end+1, len(query)):]
		}
	}
	return all
}

// translated undoes how Google Translate writes a name as one label.
var translated = strings.NewReplacer("--", "-", "-", ".")

// targets are the names of parameters whose value may be a link without its scheme.
const targets = " continue dest destination goto href link next out redir" +
	" redirect redirect_uri redirect_url return target to u uri url "

// appendTarget appends the link that the value of a parameter is, if it is one.
func (r *Reader) appendTarget(all []Link, name, value string) []Link {
	if len(value) <= len("//x.y") || len(all) == maxTargets {
		return all
	}
	rest, ok := strings.CutPrefix(value, "aHR0c") // "http" in base 64
	if !ok {
		rest, ok = strings.CutPrefix(value, "a1aHR0c") // as Bing writes it
	}
	if ok {
		plain, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight("aHR0c"+urlAlphabet.Replace(rest), "="))
		return r.appendLink(all, string(plain))
	}
	for range 3 {
		if !strings.Contains(value, "%") {
			break
		}
		value = decode(value)
	}
	switch {
	case schemeIn(value) == 0, strings.HasPrefix(value, "//"):
		return r.appendLink(all, value)
	case strings.HasPrefix(value, "http-3A__"), strings.HasPrefix(value, "https-3A__"):
		return r.appendLink(all, decode(proofpoint.Replace(value))) // Proofpoint's URL Defense, version 2
	case (strings.Contains(targets, " "+strings.ToLower(name)+" ") || strings.Contains(value, "/")) &&
		named(value[:hostEnd(value)]) && registered(value[:hostEnd(value)]):
		return r.appendLink(all, "http://"+value)
	}
	return all
}

var (
	urlAlphabet = strings.NewReplacer("+", "-", "/", "_", "%2B", "-", "%2F", "_", "%3D", "=")
	proofpoint  = strings.NewReplacer("-", "%", "_", "/")
)

// hostEnd returns where the host at the start of text ends.
func hostEnd(text string) int {
	if i := strings.IndexAny(text, "/?#:"); i >= 0 {
		return i
	}
	return len(text)
}

// registered reports whether a name ends in a domain that there is on the internet.
func registered(name string) bool {
	name = strings.ToLower(name)
	if !strings.Contains(name, ".") {
		return false
	}
	suffix, icann := publicsuffix.PublicSuffix(name)
	return (icann || strings.Contains(suffix, ".")) && suffix != name
}

func (r *Reader) appendLink(all []Link, text string) []Link {
	if len(all) == maxTargets {
		return all
	}
	if l, ok := r.parse(text); ok {
		all = append(all, l)
	}
	return all
}

// schemeIn returns where "http:/" or "https:/" begins in text, or -1.
func schemeIn(text string) int {
	for at := 0; ; {
		i := strings.Index(text[at:], ":/")
		if i < 0 {
			return -1
		}
		i += at
		for _, scheme := range [...]string{"https", "http"} {
			if n := len(scheme); i >= n && strings.EqualFold(text[i-n:i], scheme) {
				return i - n
			}
		}
		at = i + 2
	}
}
