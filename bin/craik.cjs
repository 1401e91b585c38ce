#!/usr/bin/env node
// Runs on any Node, however old, to say in one line which one is needed.
'use strict'
var major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  process.stderr.write(
    'craik: needs Node 24 or newer, and this is Node ' + process.versions.node + ': install a newer one, e.g. npm install -g n && n 24\n',
  )
  process.exit(69)
} else {
  var source = require('node:path').join(__dirname, '..', 'src', 'main.ts')
  var compiled = source.replace(/ts$/, 'js')
  import(require('node:url').pathToFileURL(require('node:fs').existsSync(compiled) ? compiled : source).href)
}
