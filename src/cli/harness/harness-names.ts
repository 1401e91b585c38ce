/** Parses and describes the names of harnesses on the command line. */
import { HARNESS_NAMES } from '../../harnesses/harness.ts'
import type { PackageName } from '../../harnesses/packages/harness-catalogue.ts'

/** The help of an option that selects the harness of a prompt. */
const AGENTS = HARNESS_NAMES.filter((name) => name !== 'fixture').join(', ')
export const HARNESS_HELP = `harness (program of an agent): ${AGENTS}, or fixture, which simulates an agent offline (default: the first with a login)`

/** Parses names such as `claude-code,codex`, or `all`. npm is a valid name too. */
export async function harnessNamesFrom(typed: string | undefined): Promise<readonly PackageName[]> {
  if (typed === undefined) return []
  const { parseHarnesses } = await import('../../harnesses/packages/harness-catalogue.ts')
  return parseHarnesses(typed)
}
