/** Hosts that a tool needs, under the tool's name. A rule copies the list when the rule is created. */
import { CraikError } from '../../errors.ts'

export const PRESETS = {
  npm: { ports: [443], hosts: ['registry.npmjs.org', 'registry.yarnpkg.com'] },
  pypi: { ports: [443], hosts: ['pypi.org', 'files.pythonhosted.org'] },
  crates: { ports: [443], hosts: ['crates.io', 'index.crates.io', 'static.crates.io'] },
  rust: { ports: [443], hosts: ['static.rust-lang.org'] },
  go: { ports: [443], hosts: ['proxy.golang.org', 'sum.golang.org', 'go.dev', 'dl.google.com'] },
  rubygems: { ports: [443], hosts: ['rubygems.org', 'index.rubygems.org'] },
  maven: { ports: [443], hosts: ['repo.maven.apache.org', 'repo1.maven.org', 'plugins.gradle.org'] },
  node: { ports: [443], hosts: ['nodejs.org'] },
  /** These archives are signed themselves, so they are also served without TLS. */
  debian: { ports: [80, 443], hosts: ['deb.debian.org', 'security.debian.org', 'ftp.debian.org'] },
  ubuntu: { ports: [80, 443], hosts: ['archive.ubuntu.com', 'security.ubuntu.com', 'ports.ubuntu.com'] },
  github: {
    ports: [443],
    hosts: [
      'github.com',
      'api.github.com',
      'codeload.github.com',
      'raw.githubusercontent.com',
      'objects.githubusercontent.com',
      'release-assets.githubusercontent.com',
    ],
  },
} as const satisfies Record<string, { readonly ports: readonly number[]; readonly hosts: readonly string[] }>

/** Presets of one tool that needs all of their hosts. One host alone is useless. */
const REGISTRIES = ['npm', 'pypi', 'crates', 'rubygems'] as const

/** Returns the preset of the tool that uses this host. */
export function registryOf(host: string, port: number): string | undefined {
  return REGISTRIES.find((name) => {
    const { ports, hosts }: { readonly ports: readonly number[]; readonly hosts: readonly string[] } =
      PRESETS[name]
    return ports.includes(port) && hosts.includes(host)
  })
}

export function presetCalled(name: string): {
  readonly ports: readonly number[]
  readonly hosts: readonly string[]
} {
  if (Object.hasOwn(PRESETS, name)) return PRESETS[name as keyof typeof PRESETS]
  throw new CraikError('usage', `unknown preset ${JSON.stringify(name.slice(0, 60))}`, {
    hint: `use one of: ${Object.keys(PRESETS).join(', ')}`,
  })
}
