/** Paths in a JSON value, such as `$.a[0].b`, with quotes around names that are not plain words. */

export function childPath(path: string, name: string): string {
  return /^[\w-]+$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`
}

export function indexPath(path: string, index: number): string {
  return `${path}[${index}]`
}
