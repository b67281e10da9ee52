// Package document opens what is attached to mail: archives (zip, gzip, tar), office
// documents (Office Open XML, OpenDocument, Word 97 to 2003), PDF and calendar entries. It returns the
// files of an archive, and the text and links of a document, as far as a [Budget] allows. It
// does not trust the sizes that an archive declares.
//
// Source: the standard library for archives; ECMA-376 and ISO 26300 for where office
// documents have their text; MS-CFB and MS-DOC for Word 97; ISO 32000-1, sections "Syntax" and
// "Text", of which a small part is read here: streams that are uncompressed or compressed by
// Flate or LZW, object streams, strings shown, and ToUnicode maps. The libraries for PDF in Go
// load whole documents without a limit of memory or time, and so are unfit for what strangers send.
//
//	for _, item := range document.Open(ctx, name, data, &document.Budget{Bytes: 1 << 20, Items: 32}) {
//		fmt.Println(item.Name, item.Kind, len(item.Data))
//	}
package document
