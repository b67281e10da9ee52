package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the modules from which a Go program was linked, as recorded in the program, in
// CycloneDX 1.6.
func writeSBOM(out io.Writer, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("sbom: %w", err)
	}
	main := component(info.Main.Path, info.Main.Version, "")
	main.Type = cyclonedx.ComponentTypeApplication
	parts := []cyclonedx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	needs := []string{parts[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(m.Path, m.Version, m.Sum)
		parts, needs = append(parts, c), append(needs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom,
		cyclonedx.SpecVersion1_6)
}

// component describes a module; sum is its line in go.sum, if it has one: the
// SHA-256 of the list of its files.
func component(path, version, sum string) cyclonedx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := cyclonedx.Component{
		BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl,
		Scope: cyclonedx.ScopeRequired,
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) > 0 {
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
	}
	return c
}
