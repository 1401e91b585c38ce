/** The parts that the word checks share: the lists of words, and the lines of findings. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface ReplacedWords {
  /** Maps each old name to its new name. */
  readonly identifiers: Readonly<Record<string, string>>
  readonly files: Readonly<Record<string, string>>
  /** Maps each old phrase to its new phrase, for all texts. */
  readonly phrases: Readonly<Record<string, string>>
  /** The same for texts that users read: strings in `src`, and pages. Code may use these words. */
  readonly userPhrases: Readonly<Record<string, string>>
  /** Strings that keep an old phrase, because they are stored, compared, or sent to a program. */
  readonly kept: readonly string[]
}

/** Called for each finding, with the position in the text. */
export type Report = (index: number, message: string) => void

export const WORDS = JSON.parse(
  readFileSync(join(import.meta.dirname, '../replaced-words.json'), 'utf8'),
) as ReplacedWords

const ALL_PHRASES = WORDS.phrases
const USER_PHRASES = { ...WORDS.phrases, ...WORDS.userPhrases }
const PATTERNS = { all: patternOf(ALL_PHRASES), user: patternOf(USER_PHRASES) }

/** A sentence that starts with one of these words has no subject. Questions may start with them. */
const BARE_OPENING = /(?:^|[.!?]\s+)(What|Whoever|Whatever) [^.!?]*[^?.!](?:[.!]|$)/

/** Returns a message for the first phrase of a text that the glossary replaced. */
export function findPhrase(text: string, readers: 'all' | 'user'): string | undefined {
  if (!text.includes(' ') || WORDS.kept.includes(text)) return undefined
  const found = PATTERNS[readers].exec(text)?.[0]
  if (found === undefined) return undefined
  return `write "${USER_PHRASES[found.toLowerCase().replace(/\s+/g, ' ')]}", not "${found}"`
}

export function findBareOpening(text: string): string | undefined {
  const word = BARE_OPENING.exec(text)?.[1]
  return word === undefined ? undefined : `a sentence starts with "${word}": say who does what`
}

export function lineAt(text: string, index: number): number {
  return text.slice(0, index).split('\n').length
}

export function own(record: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined
}

function patternOf(phrases: Readonly<Record<string, string>>): RegExp {
  // The longest phrase comes first, so that the message names all of it. In `sentinels.key`, the word is a file name.
  const sorted = Object.keys(phrases).toSorted((a, b) => b.length - a.length)
  const words = sorted.map((phrase) => phrase.replaceAll(' ', '\\s+')).join('|')
  return new RegExp(`(?<![\\w./-])(?:${words})(?![\\w-]|\\.\\w)`, 'i')
}
