/** Reads every public file and reports each breach of the public boundary. */
import { lstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bearerTokens, credentials, sshKeys, webhookSecrets } from './credentials.ts'
import { DELIBERATE, type Deliberate } from './deliberate.ts'
import { fixtureIds } from './fixture-ids.ts'
import { localPaths } from './local-paths.ts'
import { commandPayloads, environmentMaps, toolOutput } from './payloads.ts'
import { privateHosts } from './private-hosts.ts'
import { publicFiles } from './public-files.ts'
import type { Rule } from './rule.ts'

const RULES: readonly Rule[] = [
  localPaths,
  privateHosts,
  commandPayloads,
  environmentMaps,
  webhookSecrets,
  bearerTokens,
  sshKeys,
  credentials,
  toolOutput,
  fixtureIds,
]

/** Far above any page. A larger file is in the folder by mistake. */
const FILE_BYTES_MAX = 4 << 20

export interface Finding {
  readonly file: string
  readonly line: number
  readonly rule: string
  readonly what: string
  readonly instead: string
}

/** Returns every finding in one text, in order. */
export function findingsIn(file: string, text: string): readonly Finding[] {
  const form = /\.(?:ts|mjs)$/.test(file) ? 'code' : 'page'
  return RULES.flatMap((rule) =>
    [...rule.find(text, form)].map(({ start, what }) => ({
      file,
      line: lineOf(text, start),
      rule: rule.name,
      what,
      instead: rule.instead,
    })),
  ).sort((a, b) => a.line - b.line)
}

export function checkPublic(
  root: string,
  deliberate: Readonly<Record<string, Deliberate>> = DELIBERATE,
): { readonly files: number; readonly findings: readonly Finding[] } {
  const { paths, absent } = publicFiles(root)
  const found = paths.flatMap((path) => findingsInFile(root, path))
  const isIn = (location: string, file: string) =>
    location.endsWith('/') ? file.startsWith(location) : file === location
  const entries = Object.entries(deliberate)
  const isDeliberate = ({ file, rule }: Finding) =>
    entries.some(([location, { rules }]) => isIn(location, file) && rules.includes(rule))
  const stale = entries.flatMap(([location, { rules }]) =>
    rules
      .filter((rule) => !found.some((finding) => isIn(location, finding.file) && finding.rule === rule))
      .map((rule) => general(location, 'stale-exception', `nothing in it breaks ${rule}`, 'no such entry')),
  )
  const findings = [
    ...absent.map((name) => general(name, 'not-found', 'nothing to check', 'the right place')),
    ...found.filter((finding) => !isDeliberate(finding)),
    ...stale,
  ]
  return { files: paths.length, findings }
}

function findingsInFile(root: string, path: string): readonly Finding[] {
  const found = lstatSync(join(root, path))
  if (!found.isFile()) return [general(path, 'unreadable', 'not a regular file', 'the file itself')]
  if (found.size > FILE_BYTES_MAX) return [general(path, 'unreadable', 'larger than 4 MiB', 'a smaller file')]
  const text = readFileSync(join(root, path), 'utf8')
  // The rules read only text, and a screenshot of a terminal reveals as much as its text.
  if (text.includes('\0')) return [general(path, 'unreadable', 'not text', 'text')]
  return findingsIn(path, text)
}

function general(file: string, rule: string, what: string, instead: string): Finding {
  return { file, line: 1, rule, what, instead }
}

function lineOf(text: string, at: number): number {
  let line = 1
  for (let next = text.indexOf('\n'); next !== -1 && next < at; next = text.indexOf('\n', next + 1)) line++
  return line
}
