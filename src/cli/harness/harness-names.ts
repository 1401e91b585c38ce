/** Parses names such as `claude-code,codex`, or `all`. npm is a valid name too. */
import type { PackageName } from '../../harnesses/packages/harness-catalogue.ts'

export async function harnessNamesFrom(typed: string | undefined): Promise<readonly PackageName[]> {
  if (typed === undefined) return []
  const { parseHarnesses } = await import('../../harnesses/packages/harness-catalogue.ts')
  return parseHarnesses(typed)
}
