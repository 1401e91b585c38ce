#!/usr/bin/env node
// Runs on any Node, however old, to say in one line which one is needed.
const { existsSync } = require('fs')
const { join } = require('path')
const { pathToFileURL } = require('url')

const major = Number(process.versions.node.split('.')[0])
const source = join(__dirname, '..', 'src', 'main.ts')
const compiled = source.replace(/ts$/, 'js')

if (major < 24) {
  process.stderr.write(
    `craik: needs Node 24 or newer, and this is Node ${process.versions.node}: install a newer one, e.g.  npm install -g n && n 24\n`,
  )
  process.exit(69)
} else {
  import(pathToFileURL(existsSync(compiled) ? compiled : source).href)
}
