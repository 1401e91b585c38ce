/** Allows only a few example ids on public pages, never the id of a real run. */
import type { Breach, Rule } from './rule.ts'

/**
 * The end of every example id, after any prefix: `rcpt_`, `grant_`, `run_`, `handoff_`, `hold_`, `task_` and the
 * others.
 */
const FIXTURE_ULIDS: readonly string[] = [...'DEFGH'].map((last) => `01JCQ3V8Z0W4N5T6R7Y8K9M2P${last}`)

const DIGIT = '[0-9A-HJKMNP-TV-Z]'
/** Matches an id after a prefix, or alone when it begins as the ids of this era do. */
const WHOLE = new RegExp(
  String.raw`(?<![A-Za-z0-9])(?:[A-Za-z]\w*_[0-7]${DIGIT}{25}|01${DIGIT}{24})(?![A-Za-z0-9])`,
  'g',
)
/** Matches an id as tables write it: its beginning, and sometimes its end. */
const ABBREVIATED = new RegExp(
  String.raw`(?<![A-Za-z0-9])[a-z]\w*_(0${DIGIT}{2,24})(?:…|\.\.\.)(${DIGIT}*)`,
  'g',
)

export const fixtureIds: Rule = {
  name: 'fixture-id',
  instead: `a fixture id, such as rcpt_${FIXTURE_ULIDS[0]}`,
  *find(text): Iterable<Breach> {
    for (const match of text.matchAll(WHOLE)) {
      if (!FIXTURE_ULIDS.includes(match[0].slice(-26))) yield { start: match.index, what: match[0] }
    }
    for (const match of text.matchAll(ABBREVIATED)) {
      const [what, beginning, end] = match
      const isFixture = FIXTURE_ULIDS.some((ulid) => ulid.startsWith(beginning!) && ulid.endsWith(end!))
      if (!isFixture) yield { start: match.index, what }
    }
  },
}
