package seen

import (
	"strings"
	"testing"
)

// TestCascade checks what style sheets, inherited colours and old attributes hide and show. Each page shows the
// word "seen" and no other.
func TestCascade(t *testing.T) {
	for _, source := range []string{
		// Selectors.
		`<style>.a{display:none}</style><p class=a>x</p>seen`,
		`<style>.a{display:none}</style><p class="b a c">x</p><p class=ab>seen</p>`,
		`<style>#a{visibility:hidden}</style><p id=a>x<b style="visibility:visible">seen</b></p>`,
		`<style>i{font-size:0}</style><i>x</i>seen`,
		`<style>div i{font-size:0}</style><div><p><i>x</i></p></div><i>seen</i>`,
		`<style>div>i{display:none}</style><div><i>x</i><p><i>seen</i></p></div>`,
		`<style>p+p{display:none}</style><p>seen</p><p>x</p>`,
		`<style>p[title=a]{display:none}</style><p title=a>x</p><p title=b>seen</p>`,
		`<style>p:not(.a){display:none}</style><p>x</p><p class=a>seen</p>`,
		`<style>.A{display:none}</style><p class=a>x</p>seen`, // without document type
		`<!doctype html><style>.A{display:none}</style><p class=a>seen</p>`,
		`<style>a:hover{display:none}</style><a href=x>seen</a>`,
		`<style>p:foo,b{display:none}</style><b>seen</b>`,
		`<p class=a>x</p>seen<style>.a{display:none}</style>`,
		`<style>.a{display:none}</style><ul><li class=a>x<li>seen</ul>`,
		`<style>/* .b{} */ .\61 {dis\70lay:none}</style><p class=a>x</p>seen`,
		// Order, weight and importance.
		`<style>.a{display:none}.a{display:block}</style><p class=a>seen</p>`,
		`<style>p.a{display:block}.a{display:none}</style><p class=a>seen</p>`,
		`<style>.a{display:none}</style><p class=a style="display:block">seen</p>`,
		`<style>.a{display:none!important}</style><p class=a style="display:block">x</p>seen`,
		`<style>.a{display:block!important}</style><p class=a style="display:none">seen</p>`,
		`<style>.a{display:none!important}</style><p class=a style="display:block!important">seen</p>`,
		`<style>.a{display:none}</style><style>.a{display:block}</style><p class=a>seen</p>`,
		`<p style="display:none;display:bogus">x</p>seen`,
		`<p hidden style="display:block">seen</p>`,
		`<p style="font-size:0;font:12px/1.5 Arial">seen</p>`,
		`<p style="font-size:12px;font:0/0 a">x</p>seen`,
		`<p style="font:12px">seen</p>`,
		// Groups.
		`<style>@media print{.a{display:none}}</style><p class=a>seen</p>`,
		`<style>@media only screen and (max-width:480px){.a{display:none}}</style><p class=a>seen</p>`,
		`<style>@media screen{.a{display:none}}</style><p class=a>x</p>seen`,
		`<style media=print>.a{display:none}</style><p class=a>seen</p>`,
		`<style type="text/x">.a{display:none}</style><p class=a>seen</p>`,
		`<template><style>.a{display:none}</style></template><p class=a>seen</p>`,
		`<!--[if mso]><style>.a{display:none}</style><![endif]--><p class=a>seen</p>`,
		`<![if !mso]><style>.a{display:none}</style><![endif]><p class=a>x</p>seen`,
		`<style><!-- .a{display:none} --></style><p class=a>x</p>seen`,
		// Colours.
		`<p style="color:#fff">x</p>seen`,
		`<div style="color:white"><p>x</p><p style="color:#333">seen</p></div>`,
		`<div style="background:navy"><p style="color:white">seen</p></div>`,
		`<div style="background:navy"><p style="color:navy">x</p></div>seen`,
		`<div style="background:navy;color:#fff"><div style="background:#fefefe"><p>x</p><a href=y>seen</a></div></div>`,
		`<table bgcolor=000080><tr><td><font color="#ffffff">seen</font><font color=navy>x</font></table>`,
		`<body bgcolor=black text=black>x<p style="color:#eee">seen</p></body>`,
		`<body bgcolor=black text=white>seen</body>`,
		`<table background="http://a.example/p.png"><tr><td style="color:#fff">seen</table>`,
		`<div style="background:url(a.png) no-repeat"><p style="color:#fff">seen</p></div>`,
		`<div style="background-image:linear-gradient(red,blue)"><p style="color:#fff">seen</p></div>`,
		`<div style="color:hsl(0, 0%, 100%)">x</div>seen`,
		`<div style="color:rgba(0,0,0,0)">x</div>seen`,
		`<div style="color:transparent">x</div>seen`,
		`<div style="color:rgb(100% 100% 100% / 1)">x</div>seen`,
		`<div style="color:#ffffffff">x</div>seen`,
		`<div style="color:#0000">x</div>seen`,
		`<div style="background-color:rgba(0,0,0,.9)"><span style="color:#fff">seen</span></div>`,
		`<div style="color:inherit">seen</div>`,
		`<style>.w{color:#fff}.d{background:#222}</style><p class=w>x</p><div class=d><p class=w>seen</p></div>`,
		`<style>body{background:#000}</style><p style="color:#fff">seen</p><p style="color:#000">x</p>`,
		`<style>body{background:#000;color:#000}</style>x<p style="color:#eee">seen</p>`,
		`<p style="background:white">seen</p>`,
		// Sizes.
		`<div style="font-size:0"><p style="font-size:200%">x</p><p style="font-size:1rem">seen</p></div>`,
		`<div style="font-size:0">x<h1>x</h1><font size=2>seen</font></div>`,
		`<div style="font-size:1pt">x</div><div style="font-size:3px">seen</div>`,
		`<div style="font-size:10px"><p style="font-size:.01em">x</p>seen</div>`,
		`<style>td{font-size:14px}</style><table style="font-size:0"><tr><td>seen</table>`,
		`<!doctype html><div style="font-size:0"><table><tr><td>x</table></div>seen`,
		`<div style="font-size:calc(0px)">x</div>seen`,
		`<span style="height:0;overflow:hidden">seen</span>`,
		`<span style="height:0;overflow:hidden;display:block">x</span>seen`,
		`<table><tr><td style="height:0;overflow:hidden">seen</table>`,
		`<div style="height:0;overflow:hidden;height:auto">seen</div>`,
		`<div style="position:absolute;clip:rect(0 0 0 0)">x</div>seen`,
		`<div style="clip-path:inset(50%)">x</div>seen`,
		`<div style="margin:0 0 0 -9999px">x</div>seen`,
		`<div style="opacity:0%">x</div><div style="opacity:1">seen</div>`,
		// Others.
		`<p aria-hidden=true>seen</p>`,
		`<input type=hidden value=x>seen`,
		`<details>x<summary>seen</summary><p>x</p></details>`,
		`seen<canvas>x</canvas><video>x</video><datalist>x</datalist>`,
		`<div><canvas>x</div>seen`,
		// A page with many elements that change the look.
		strings.Repeat(`<div style="color:#222"><div style="color:#333">`, 60) + `<p hidden>x</p>seen`,
	} {
		if got, _ := readWords(source); got != "seen" {
			t.Errorf("%.150s shows %q", source, got)
		}
	}
}

// TestCascadeLinks checks which links can be seen.
func TestCascadeLinks(t *testing.T) {
	for source, hidden := range map[string]bool{
		`<style>.a{display:none}</style><a class=a href="http://a.example">x</a>`:                  true,
		`<style>.a{display:none}</style><p class=a><a href="http://a.example">x</a></p>`:           true,
		`<div style="font-size:0"><a href="http://a.example">x</a></div>`:                          true,
		`<div style="font-size:0"><a href="http://a.example"><img src=x></a></div>`:                false,
		`<p style="font-size:0"><a href="http://a.example"><b style="font-size:9px">x</b></a></p>`: false,
		`<div style="font-size:0"><a href="http://a.example"><img hidden src=x></a></div>`:         true,
		`<a style="color:#fff" href="http://a.example">x</a>`:                                      true,
		`<td bgcolor=red><a style="color:#fff" href="http://a.example">x</a>`:                      true, // no table, no cell
		`<table><td bgcolor=red><a style="color:#fff" href="http://a.example">x</a>`:               false,
		`<div style="visibility:hidden"><a href="http://a.example"><img src=x></a></div>`:          true,
		`<div style="color:#fff">x<a href="http://a.example">x</a></div>`:                          false, // links are blue
	} {
		links := pageOf(t, source).Links
		if len(links) != 1 || links[0].Hidden != hidden {
			t.Errorf("%s: %v, want hidden %v", source, links, hidden)
		}
	}
}
