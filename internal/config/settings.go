package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A Setting is one key of a configuration with its value, without secrets.
type Setting struct {
	Key     string // dotted; tables of a list have their number, from 0: "lists.list[0].name"
	Value   string // as written in the file; Hidden for a secret
	Doc     string // its meaning
	Reload  bool   // a running node can apply a change
	Default bool   // the value is that of Default
}

// Hidden is the Value of a secret, and replaces the secret parts of a URL.
const Hidden = "(hidden)"

// Settings returns every key of a configuration with its value, in the order of the
// reference, without secrets.
func Settings(cfg *Config) []Setting {
	var all []Setting
	v, d := reflect.ValueOf(cfg).Elem(), reflect.ValueOf(Default()).Elem()
	for i := range v.NumField() {
		section := v.Type().Field(i)
		name := section.Tag.Get("toml")
		if isTables(section) {
			all = appendTables(all, name, section, v.Field(i), reloads(section))
			continue
		}
		for j := range section.Type.NumField() {
			f := section.Type.Field(j)
			key := name + "." + f.Tag.Get("toml")
			if isTables(f) {
				all = appendTables(all, key, f, v.Field(i).Field(j), reloads(f))
				continue
			}
			s := settingOf(key, f, v.Field(i).Field(j), reloads(f))
			s.Default = reflect.DeepEqual(v.Field(i).Field(j).Interface(), d.Field(i).Field(j).Interface())
			all = append(all, s)
		}
	}
	return all
}

// appendTables appends the keys of a list of tables.
func appendTables(all []Setting, name string, f reflect.StructField, v reflect.Value, reload bool) []Setting {
	for i := range v.Len() {
		for j := range f.Type.Elem().NumField() {
			key := f.Type.Elem().Field(j)
			s := settingOf(nth(name, i)+"."+key.Tag.Get("toml"), key, v.Index(i).Field(j), reload)
			s.Default = v.Index(i).Field(j).IsZero()
			all = append(all, s)
		}
	}
	return all
}

func settingOf(key string, f reflect.StructField, v reflect.Value, reload bool) Setting {
	s := Setting{Key: key, Doc: strings.ReplaceAll(f.Tag.Get("doc"), "\n", " "), Reload: reload}
	if v.Kind() == reflect.Slice && v.IsNil() {
		v = reflect.MakeSlice(v.Type(), 0, 0)
	}
	switch f.Tag.Get("secret") {
	case "yes":
		if !v.IsZero() {
			s.Value = Hidden
			return s
		}
	case "url":
		v = withoutSecrets(v)
	}
	line, err := toml.Marshal(map[string]any{"v": v.Interface()})
	if err != nil {
		s.Value = fmt.Sprintf("(%v)", err) // unreachable: the value came from a file
		return s
	}
	s.Value = strings.TrimSpace(strings.TrimPrefix(string(line), "v = "))
	return s
}

// withoutSecrets returns a URL, or a list of URLs, without name, password and query values.
func withoutSecrets(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Slice {
		out := reflect.MakeSlice(v.Type(), 0, v.Len())
		for i := range v.Len() {
			out = reflect.Append(out, withoutSecrets(v.Index(i)))
		}
		return out
	}
	text := v.String()
	u, err := url.Parse(text)
	switch {
	case err != nil && !strings.ContainsAny(text, "@?"): // host:port
	case err != nil:
		text = Hidden
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Host != "" && strings.Trim(u.Path, "/") != "":
		text = u.Scheme + "://" + u.Host + "/" + Hidden // tokens of webhooks are in their paths
	}
	return reflect.ValueOf(text)
}
