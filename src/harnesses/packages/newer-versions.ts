/** Compares the pinned versions with the registry's latest ones. */
import { ARCHITECTURES, type PackagedHarnessName, readHarness } from './harness-catalogue.ts'
import { fetchLatestVersion } from './npm.ts'

export interface PinnedPackage {
  readonly harness: PackagedHarnessName
  readonly package: string
  readonly pinned: string
  readonly latest: string
  readonly isNewer: boolean
}

export interface VersionCheckOptions {
  readonly environment: NodeJS.ProcessEnv
  readonly mounted: readonly string[]
  readonly signal: AbortSignal
}

/** Queries the packages one after the other. Changes nothing. */
export async function findNewerVersions(
  names: readonly PackagedHarnessName[],
  { environment, mounted, signal }: VersionCheckOptions,
): Promise<readonly PinnedPackage[]> {
  const found: PinnedPackage[] = []
  for (const harness of names)
    for (const [name, pinned] of Object.entries(readHarness(harness).packages)) {
      if (ARCHITECTURES.some((one) => one !== process.arch && name.endsWith(`-${one}`))) continue
      const latest = await fetchLatestVersion(name, { folder: '/', environment, mounted, signal })
      found.push({ harness, package: name, pinned, latest, isNewer: isNewerVersion(latest, pinned) })
    }
  return found
}

/** Compares versions by their numbers. A pre-release comes before its release. */
export function isNewerVersion(one: string, other: string): boolean {
  const [a, b] = [one, other].map((version) => version.split('-', 1)[0]!.split('.').map(Number))
  for (let at = 0; at < Math.max(a!.length, b!.length); at++) {
    const difference = (a![at] ?? 0) - (b![at] ?? 0)
    if (difference !== 0) return difference > 0
  }
  return other.includes('-') && !one.includes('-')
}
