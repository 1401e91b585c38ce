/** Paths into a JSON value: `$.a[0].b`, with quotes around names that are no plain word. */

export function childPath(path: string, name: string): string {
  return /^[\w-]+$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`
}

export function indexPath(path: string, index: number): string {
  return `${path}[${index}]`
}
