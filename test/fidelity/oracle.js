// Returns the words that a person sees of the page, and the links, as JSON. The browser computes all styles;
// this hides, besides what is not displayed, the text that is displayed and cannot be seen.
(() => {
	const parts = colour => {
		const n = (colour.match(/[\d.]+/g) || []).map(Number);
		return n.length < 3 ? null : [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
	};
	const over = (c, d) => [0, 1, 2].map(i => c[i] * c[3] + d[i] * (1 - c[3]));
	const styles = new Map();
	const style = e => {
		if (!styles.has(e)) styles.set(e, e.inserts ? getComputedStyle(e.parentElement, e.inserts) : getComputedStyle(e));
		return styles.get(e);
	};
	const grounds = new Map();
	const ground = e => { // null with a picture
		if (!e) return [255, 255, 255];
		if (grounds.has(e)) return grounds.get(e);
		const around = ground(e.parentElement), c = parts(style(e).backgroundColor);
		let g = around;
		if (style(e).backgroundImage != 'none') g = null;
		else if (c && c[3] == 1) g = c.slice(0, 3);
		else if (c && around) g = over(c, around);
		grounds.set(e, g);
		return g;
	};
	const away = e => { // with all that is in it
		const s = style(e);
		const inline = s.display == 'inline' || s.display.startsWith('table');
		const zero = v => v == '0px';
		const far = v => parseFloat(v) <= -500;
		return parseFloat(s.opacity) < 0.05 ||
			(s.position == 'absolute' || s.position == 'fixed') &&
				([s.left, s.top, s.right, s.bottom].some(far) || /^rect\((0px|1px)?,? *(0px|1px)/.test(s.clip)) ||
			!inline && s.overflowX != 'visible' && [s.height, s.maxHeight, s.width, s.maxWidth].some(zero) ||
			far(s.marginLeft);
	};
	const aways = new Map();
	const gone = e => {
		if (!e) return false;
		if (!aways.has(e)) aways.set(e, away(e) || gone(e.parentElement));
		return aways.get(e);
	};
	const unseen = e => {
		const s = style(e), g = ground(e), c = parts(s.webkitTextFillColor);
		return gone(e) || parseFloat(s.fontSize) <= 1.34 || parseFloat(s.textIndent) <= -500 ||
			!!(g && c && over(c, g).every((v, i) => Math.abs(v - g[i]) <= 12));
	};
	// What style sheets write, and the values of fields, become texts of the page. Selectors do not see texts.
	const replaced = ['area', 'audio', 'br', 'canvas', 'embed', 'hr', 'iframe', 'img', 'input', 'meter', 'object', 'progress',
		'select', 'textarea', 'video'];
	const written = content => {
		let text = '';
		for (const [, string] of content.matchAll(/"((?:[^"\\]|\\.)*)"/g))
			text += string.replace(/\\([0-9a-f]{1,6}) ?/gi, (_, hex) => String.fromCodePoint(parseInt(hex, 16)))
				.replace(/\\(.)/g, '$1');
		return text;
	};
	const joins = (e, s) => s.display == 'inline' && !style(e).display.startsWith('table') && e != document.documentElement;
	const inserted = [];
	for (const e of document.querySelectorAll('*')) {
		if (replaced.includes(e.localName)) continue;
		for (const part of ['::before', '::after']) {
			const p = {inserts: part, parentElement: e}, s = style(p);
			const attr = s.content.replace(/attr\((\w+)\)/g, (_, name) => JSON.stringify(e.getAttribute(name) || ''));
			const text = written(attr);
			if (s.display != 'none' && s.visibility == 'visible' && text && !unseen(p))
				inserted.push([e, part, joins(e, s) ? text : ' ' + text + ' ']);
		}
	}
	// Fields show their values, or what is to be put there.
	const silent = ['hidden', 'checkbox', 'radio', 'file', 'image', 'color', 'range', 'date', 'time', 'datetime-local',
		'month', 'week'];
	for (const e of document.querySelectorAll('input')) {
		let text = e.defaultValue, look = e;
		if (silent.includes(e.type) || e.type == 'password' && text) continue;
		if (!text && !['submit', 'button', 'reset'].includes(e.type))
			[text, look] = [e.placeholder, {inserts: '::placeholder', parentElement: e}];
		if (text && e.checkVisibility({visibilityProperty: true}) && !unseen(look)) inserted.push([e, '', ' ' + text + ' ']);
	}
	for (const e of document.querySelectorAll('textarea')) {
		const look = e.defaultValue ? e : {inserts: '::placeholder', parentElement: e};
		if (e.checkVisibility({visibilityProperty: true}) && !unseen(look))
			inserted.push([e, '', e.defaultValue || ' ' + e.placeholder + ' ']);
		e.defaultValue = '';
	}
	const sheet = new CSSStyleSheet();
	sheet.replaceSync('@layer x { *::before, *::after { content: none !important } * { line-height: normal !important } }');
	document.adoptedStyleSheets = [sheet];
	const kept = new Set();
	for (const [e, part, text] of inserted) {
		const at = part == '::before' ? 'prepend' : part == '::after' ? 'append' : 'before', t = document.createTextNode(text);
		(e == document.documentElement ? document.body : e)[at](t);
		kept.add(t);
	}
	// Letters of an element that turns them round stand in the text as they stand on the screen, line by line.
	const turns = e => style(e).unicodeBidi.endsWith('-override') && style(e).direction == 'rtl';
	const turned = [];
	for (const e of document.querySelectorAll('body, body *')) {
		if (!turns(e) || turned.some(([o]) => o.contains(e))) continue;
		const letters = [];
		const walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
		while (walk.nextNode()) {
			const t = walk.currentNode;
			if (!kept.has(t) && (unseen(t.parentElement) || style(t.parentElement).visibility != 'visible')) continue;
			for (let i = 0; i < t.length; i++) {
				const range = document.createRange();
				range.setStart(t, i);
				range.setEnd(t, i + 1);
				const box = range.getBoundingClientRect();
				if (box.width) letters.push([box.bottom, box.left, t.data[i]]);
			}
		}
		// A blank at the end, which now stands elsewhere, goes on to join the blank behind it.
		const joined = letters.length && /\s/.test(letters.at(-1)[2]) ? '\ue000' : '';
		letters.sort((a, b) => a[0] - b[0]);
		const lines = [];
		for (const l of letters) {
			if (!lines.length || l[0] - lines.at(-1)[0][0] > 6) lines.push([]);
			lines.at(-1).push(l);
		}
		turned.push([e, lines.map(line => line.sort((a, b) => a[1] - b[1]).map(l => l[2]).join('')).join('\n') + joined]);
	}
	const texts = [];
	const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) texts.push(walk.currentNode);
	const hidden = texts.filter(t => !kept.has(t) && t.parentElement && t.data.trim() && unseen(t.parentElement));
	const links = new Set();
	const out = /^[\s\x00-\x20]*[hft\/\\&]/i;
	const rendered = (e, visibility) => !!e && e.checkVisibility({visibilityProperty: visibility !== false}) && !gone(e);
	const take = (e, name, ok) => {
		const url = e.getAttribute(name);
		if (url !== null && ok && out.test(url)) links.add(url.trim());
	};
	const shows = a => {
		const walk = document.createTreeWalker(a, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
		while (walk.nextNode()) {
			const n = walk.currentNode;
			if (n.nodeType == 1 ? n.localName == 'img' && rendered(n) :
				n.data.trim() && rendered(n.parentElement) && !unseen(n.parentElement)) return true;
		}
		return false;
	};
	for (const a of document.querySelectorAll('a[href]'))
		take(a, 'href', a.namespaceURI.endsWith('xhtml') && rendered(a) && (!unseen(a) || shows(a)));
	for (const [selector, name] of [['area', 'href'], ['base', 'href'], ['form', 'action'], ['button', 'formaction'],
		['input', 'formaction'], ['iframe', 'src'], ['frame', 'src']])
		for (const e of document.querySelectorAll(selector + '[' + name + ']'))
			take(e, name, e.localName == 'base' || rendered(e.parentElement));
	for (const t of hidden) t.data = '';
	// What is invisible keeps its room: its text goes, and the ends of its lines stay.
	const invisible = [...document.querySelectorAll('body, body *')].filter(e => style(e).visibility != 'visible');
	for (const t of texts) if (!kept.has(t) && invisible.includes(t.parentElement)) t.data = '';
	for (const e of invisible) e.style.setProperty('visibility', 'visible', 'important');
	for (const [e, text] of turned) e.textContent = text;
	const text = rendered(document.body, false) ? document.body.innerText : '';
	return JSON.stringify({text: text.replace(/\ue000 ?/g, ''), links: [...links].sort()});
})()
