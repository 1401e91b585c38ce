/** Reads the text of `--help`. */

/** Returns the lines of a help text that begin with the program's name. */
export function examplesIn(help: string): string[] {
  const [, examples = ''] = help.replaceAll(/ \\\n +/g, ' ').split(/^Examples?:$/m)
  return [...examples.matchAll(/^ {2}(craik .+)$/gm)].map(([, line]) => line!.replace(/ {3,}.*$/, '').trim())
}
