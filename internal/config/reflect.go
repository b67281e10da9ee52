package config

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A Door is one key of [listen].
type Door struct {
	Key     string // for example "pyzor"
	Address string // "" if the door is off
}

// Doors returns every front door in the order of the struct, those that are
// off included.
func (l *Listen) Doors() []Door {
	var doors []Door
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		doors = append(doors, Door{Key: v.Type().Field(i).Tag.Get("toml"), Address: v.Field(i).String()})
	}
	return doors
}

// Changed returns the dotted keys whose values differ between two
// configurations: first those that a running node takes over, then those that
// need a restart.
func Changed(was, is *Config) (reloadable, restart []string) {
	a, b := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	for i := range a.NumField() {
		section := a.Type().Field(i)
		for j := range section.Type.NumField() {
			key := section.Type.Field(j)
			if reflect.DeepEqual(a.Field(i).Field(j).Interface(), b.Field(i).Field(j).Interface()) {
				continue
			}
			name := section.Tag.Get("toml") + "." + key.Tag.Get("toml")
			if key.Tag.Get("reload") == "yes" {
				reloadable = append(reloadable, name)
			} else {
				restart = append(restart, name)
			}
		}
	}
	return reloadable, restart
}

// Reloaded returns what a node that runs with one configuration runs with once
// it has taken over what it can of another: see [Changed].
func Reloaded(running, file *Config) *Config {
	out := *running
	a, b := reflect.ValueOf(&out).Elem(), reflect.ValueOf(file).Elem()
	for i := range a.NumField() {
		section := a.Type().Field(i).Type
		for j := range section.NumField() {
			if section.Field(j).Tag.Get("reload") == "yes" {
				a.Field(i).Field(j).Set(b.Field(i).Field(j))
			}
		}
	}
	return &out
}

// WriteReference writes every section and key with its meaning and its default,
// as a file that [Parse] accepts and that means the same as [Default].
func WriteReference(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("# Every key of bulkhead's configuration with its default.\n" +
		"# Keys marked (reload) are taken over on SIGHUP; the others need a restart.\n")
	v := reflect.ValueOf(Default()).Elem()
	for i := range v.NumField() {
		section := v.Type().Field(i)
		b.WriteByte('\n')
		writeComment(&b, section.Tag.Get("doc"))
		fmt.Fprintf(&b, "[%s]\n", section.Tag.Get("toml"))
		for j := range section.Type.NumField() {
			key := section.Type.Field(j)
			doc := key.Tag.Get("doc")
			if key.Tag.Get("reload") == "yes" {
				doc += " (reload)"
			}
			writeComment(&b, doc)
			line, err := toml.Marshal(map[string]any{key.Tag.Get("toml"): v.Field(i).Field(j).Interface()})
			if err != nil {
				return fmt.Errorf("config: %s.%s: %w", section.Name, key.Name, err)
			}
			b.Write(line)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeComment(b *bytes.Buffer, text string) {
	for line := range strings.Lines(text) {
		b.WriteString("# " + strings.TrimSuffix(line, "\n") + "\n")
	}
}
